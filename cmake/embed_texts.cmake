# Writes the files in FILES as C strings: a table of names and texts in OUT.
# cmake -DOUT=table.c "-DFILES=a|b" -P embed_texts.cmake
string(REPLACE "|" ";" FILES "${FILES}")
set(arrays "")
set(rows "")
set(i 0)
set(n 0)
foreach(file IN LISTS FILES)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "((0x..,){20})" "\\1\n    " bytes "${bytes}")
    # Texts of the GPU's kernels go by their bare names, whatever room they are in.
    string(REGEX REPLACE "^.*/(kernels/([a-z]+/)?|include/|src/)" "" name ${file})
    string(APPEND arrays "static const char text_${i}[] = {\n    ${bytes}0x00};\n")
    string(APPEND rows "    {\"${name}\", text_${i}},\n")
    math(EXPR n "${n} + 1")
    if(name MATCHES "^weir/(.*)") # public headers include each other by bare names
        string(APPEND rows "    {\"${CMAKE_MATCH_1}\", text_${i}},\n")
        math(EXPR n "${n} + 1")
    endif()
    math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUT}.new "#include \"cuda/cuda.h\"\n\n${arrays}
const struct weir__cuda_source weir__cuda_sources[] = {\n${rows}};
const int weir__cuda_nsources = ${n};\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUT}.new ${OUT})
file(REMOVE ${OUT}.new)
