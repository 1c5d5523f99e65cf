# weir_static as another build tree of these sources has it.
find_package(Threads REQUIRED)

add_library(weir_static STATIC IMPORTED)
set_target_properties(weir_static PROPERTIES IMPORTED_LOCATION ${WEIR_PREBUILT}/libweir.a)
target_include_directories(weir_static INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(weir_static INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})

load_cache(${WEIR_PREBUILT} READ_WITH_PREFIX PREBUILT_ HWLOC_FOUND HWLOC_LINK_LIBRARIES)
if(PREBUILT_HWLOC_FOUND)
    target_link_libraries(weir_static INTERFACE hwloc)
endif()
