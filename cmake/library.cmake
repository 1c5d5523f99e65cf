# libweir.so and libweir.a from the same objects.
find_package(Threads REQUIRED)

file(GLOB_RECURSE weir_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
file(GLOB_RECURSE weir_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/host/*.c)
if(weir_kernels)
    list(REMOVE_ITEM weir_sources ${weir_kernels})
endif()

include(cmake/watch.cmake)
include(cmake/embed.cmake)
file(GLOB weir_profiles CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/profiles/*.profile)
weir_embed_profiles(${PROJECT_BINARY_DIR}/profiles.c ${weir_profiles})
list(APPEND weir_sources ${PROJECT_BINARY_DIR}/profiles.c)

if(WEIR_HWLOC)
    find_package(PkgConfig QUIET)
    if(PKG_CONFIG_FOUND)
        pkg_check_modules(HWLOC QUIET IMPORTED_TARGET hwloc)
    endif()
endif()

# The settings that all objects of the library share.
function(weir_add_objects name)
    add_library(${name} OBJECT ${ARGN})
    set_target_properties(${name} PROPERTIES
        POSITION_INDEPENDENT_CODE ON
        C_VISIBILITY_PRESET hidden)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${name} PRIVATE weir_options Threads::Threads)
    target_compile_definitions(${name} PRIVATE WEIR_VERSION="${PROJECT_VERSION}")
    set(weir_objects ${weir_objects} ${name} PARENT_SCOPE)
endfunction()

# The texts that the cuda device compiles at run time, with the headers they share with the
# host's kernels.
file(GLOB_RECURSE weir_texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cu
    ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cuh ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.h
    ${PROJECT_SOURCE_DIR}/src/ops/host/*.h)
list(FILTER weir_texts EXCLUDE REGEX "(_real|_row|gemm_[a-z0-9]+|simd|vmath)\\.h$")
foreach(header status device stream memory tensor launch)
    list(APPEND weir_texts ${PROJECT_SOURCE_DIR}/include/weir/${header}.h)
endforeach()
list(APPEND weir_texts ${PROJECT_SOURCE_DIR}/src/device/code.h
    ${PROJECT_SOURCE_DIR}/src/device/report.h ${PROJECT_SOURCE_DIR}/src/comm/shown.h
    ${PROJECT_SOURCE_DIR}/src/ops/gpu/layout.h ${PROJECT_SOURCE_DIR}/src/ops/gpu/chain.h
    ${PROJECT_SOURCE_DIR}/src/ops/gpu/scatters.h)
list(JOIN weir_texts "|" weir_texts_list)
set(weir_embedded ${PROJECT_BINARY_DIR}/cuda_sources.c)
add_custom_command(OUTPUT ${weir_embedded}
    COMMAND ${CMAKE_COMMAND} -DOUT=${weir_embedded} "-DFILES=${weir_texts_list}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake
    DEPENDS ${weir_texts} ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake
    VERBATIM)

weir_add_objects(weir_core ${weir_sources} ${weir_embedded} ${weir_watch_bytes})
# The timeline page is built in (trace/write/page.c).
set(weir_page ${PROJECT_SOURCE_DIR}/src/trace/write/page)
file(GLOB weir_page_files CONFIGURE_DEPENDS ${weir_page}/*)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/trace/write/page.c PROPERTIES
    COMPILE_DEFINITIONS WEIR_PAGE_DIR="${weir_page}"
    OBJECT_DEPENDS "${weir_page_files}")
if(HWLOC_FOUND)
    target_compile_definitions(weir_core PRIVATE WEIR_HAVE_HWLOC=1)
    target_link_libraries(weir_core PRIVATE PkgConfig::HWLOC)
endif()

# Host kernels are compiled once per instruction set level; WEIR_ISA becomes a
# suffix of their names and the library picks a level when it starts.
set(weir_isas v1)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(weir_isas v1 v3 v4)
    set(weir_isa_flags_v1 -march=x86-64)
    set(weir_isa_flags_v3 -march=x86-64-v3)
    set(weir_isa_flags_v4 -march=x86-64-v4 -mprefer-vector-width=512)
endif()
if(WEIR_NATIVE AND EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo weir_cpu REGEX "^flags" LIMIT_COUNT 1)
    set(weir_native v1)
    foreach(level "v3;avx2;fma;bmi1;bmi2;f16c;movbe;abm" "v4;avx512f;avx512bw;avx512cd;avx512dq;avx512vl")
        list(POP_FRONT level isa)
        set(weir_has_all ${isa})
        foreach(flag IN LISTS level)
            if(NOT weir_cpu MATCHES " ${flag}( |$)")
                set(weir_has_all "")
            endif()
        endforeach()
        if(NOT weir_has_all OR NOT isa IN_LIST weir_isas)
            break()
        endif()
        set(weir_native ${isa})
    endforeach()
    set(weir_isas ${weir_native})
    target_compile_definitions(weir_options INTERFACE WEIR_ISA_ONLY=${weir_native})
endif()
if(weir_kernels)
    foreach(isa IN LISTS weir_isas)
        weir_add_objects(weir_kernels_${isa} ${weir_kernels})
        target_compile_definitions(weir_kernels_${isa} PRIVATE WEIR_ISA=${isa})
        target_compile_options(weir_kernels_${isa} PRIVATE ${weir_isa_flags_${isa}}
            $<$<CONFIG:RelWithDebInfo,Release>:-O3> $<$<CONFIG:Demo>:-O2>)
    endforeach()
    # Contraction changes results from level to level: only matmul, which is
    # nothing without FMA, may use it.
    foreach(file IN LISTS weir_kernels)
        if(file MATCHES "/gemm[^/]*\\.c$")
            set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -ffp-contract=fast)
        else()
            set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
        endif()
    endforeach()
endif()

function(weir_add_library name type)
    add_library(${name} ${type})
    add_library(weir::${name} ALIAS ${name})
    foreach(objects IN LISTS weir_objects)
        target_sources(${name} PRIVATE $<TARGET_OBJECTS:${objects}>)
    endforeach()
    set_target_properties(${name} PROPERTIES OUTPUT_NAME weir LINKER_LANGUAGE C)
    target_include_directories(${name} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:weir_options>
        Threads::Threads m ${CMAKE_DL_LIBS})
    if(HWLOC_FOUND)
        target_link_libraries(${name} PRIVATE ${HWLOC_LINK_LIBRARIES})
    endif()
endfunction()

weir_add_library(weir SHARED)
weir_add_library(weir_static STATIC)

set(weir_map ${PROJECT_SOURCE_DIR}/weir.map)
set_target_properties(weir PROPERTIES
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS ${weir_map})
# Its threads run on after a dlclose: the default device is never closed.
target_link_options(weir PRIVATE -Wl,--version-script=${weir_map} -Wl,-z,nodelete)
if(NOT WEIR_SANITIZE) # their runtime is in the program, not in the library
    target_link_options(weir PRIVATE -Wl,-z,defs)
endif()
