# Builds the observer program (src/comm/procs/watch) and embeds its bytes in the library. The program uses no library, so this turns off
# the build's flags that need one (sanitizers).
set(weir_watch_source ${PROJECT_SOURCE_DIR}/src/comm/procs/watch/program.c)
list(REMOVE_ITEM weir_sources ${weir_watch_source})
set(weir_watch_program "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|aarch64|arm64)$")
    add_executable(weir_watch ${weir_watch_source})
    target_include_directories(weir_watch PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_options(weir_watch PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Os -g0 -ffreestanding -fno-builtin -fno-pie
        -fno-lto -fno-stack-protector -fno-sanitize=all -fno-asynchronous-unwind-tables -U_FORTIFY_SOURCE)
    target_link_options(weir_watch PRIVATE -nostdlib -static -s -fno-lto -fno-sanitize=all -Wl,--build-id=none)
    set(weir_watch_program $<TARGET_FILE:weir_watch>)
endif()
set(weir_watch_bytes ${PROJECT_BINARY_DIR}/watch_program.c)
add_custom_command(OUTPUT ${weir_watch_bytes}
    COMMAND ${CMAKE_COMMAND} -DOUT=${weir_watch_bytes} -DPROGRAM=${weir_watch_program}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_program.cmake
    DEPENDS ${weir_watch_program} ${PROJECT_SOURCE_DIR}/cmake/embed_program.cmake
    VERBATIM)
