# Texts that become part of the library, so that an installed program finds them anywhere.

# weir_embed_profiles(OUT FILES...): a C file with the table that src/sim/profile.c declares.
function(weir_embed_profiles out)
    set(tables "")
    set(rows "")
    foreach(file IN LISTS ARGN)
        get_filename_component(name ${file} NAME_WLE)
        string(MAKE_C_IDENTIFIER "text_${name}" symbol)
        file(READ ${file} bytes HEX)
        string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
        string(APPEND tables "static const char ${symbol}[] = {${bytes}0};\n")
        string(APPEND rows "    {\"${name}\", ${symbol}},\n")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    endforeach()
    file(CONFIGURE OUTPUT ${out} CONTENT "${tables}
struct weir__builtin_profile { const char *name, *text; };
extern const struct weir__builtin_profile weir__builtin_profiles[];
const struct weir__builtin_profile weir__builtin_profiles[] = {
${rows}    {0, 0},
};
" @ONLY)
endfunction()
