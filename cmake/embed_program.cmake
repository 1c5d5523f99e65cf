# Writes the bytes of PROGRAM as C into OUT, none if there is no program.
# cmake -DOUT=program.c -DPROGRAM=program -P embed_program.cmake
set(bytes "0")
set(size "0")
if(PROGRAM)
    file(READ ${PROGRAM} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "((0x..,){20})" "\\1\n    " bytes "${bytes}")
    set(size "sizeof weir__watch_program")
endif()
file(WRITE ${OUT}.new "#include \"comm/procs/watch/watch.h\"\n
const unsigned char weir__watch_program[] = {\n    ${bytes}};
const size_t weir__watch_program_size = ${size};\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUT}.new ${OUT})
file(REMOVE ${OUT}.new)
