# Library, headers, pkg-config file, CMake package, man pages and shell completions.
include(CMakePackageConfigHelpers)

set(weir_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)

install(TARGETS weir weir_static EXPORT weirTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT weirTargets NAMESPACE weir:: DESTINATION ${weir_cmake_dir})

configure_package_config_file(cmake/weirConfig.cmake.in weirConfig.cmake
    INSTALL_DESTINATION ${weir_cmake_dir})
write_basic_package_version_file(weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weirConfig.cmake ${PROJECT_BINARY_DIR}/weirConfigVersion.cmake
    DESTINATION ${weir_cmake_dir})

# Paths relative to the .pc file keep an installed prefix movable.
file(RELATIVE_PATH weir_pc_prefix
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(weir_pc_libs_private "-pthread -lm -ldl")
if(HWLOC_FOUND)
    # Not Requires.private: hwloc is linked as a shared library, and Debian's
    # hwloc.pc asks static users for libraries that need not be there.
    string(PREPEND weir_pc_libs_private "-lhwloc ")
endif()
configure_file(weir.pc.in weir.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES completions/weir.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME weir)
install(FILES completions/_weir DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES completions/weir.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# The man page is what the program says of itself, so it is made once that is there.
if(TARGET weir_cli)
    install(CODE "execute_process(
        COMMAND ${PROJECT_SOURCE_DIR}/scripts/docs/make-man ${PROJECT_BINARY_DIR}/weir
        OUTPUT_FILE ${PROJECT_BINARY_DIR}/weir.1 COMMAND_ERROR_IS_FATAL ANY)")
    install(FILES ${PROJECT_BINARY_DIR}/weir.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# Section 3 is what the headers say, as docs/api.md is.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
    install(CODE "execute_process(
        COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/api-reference
                --man ${PROJECT_BINARY_DIR}/man3 COMMAND_ERROR_IS_FATAL ANY)")
    install(DIRECTORY ${PROJECT_BINARY_DIR}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()
