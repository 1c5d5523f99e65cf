# weir_options: what every target of this tree is compiled with, and nothing an
# installed consumer should see.
add_library(weir_options INTERFACE)
target_compile_definitions(weir_options INTERFACE
    _GNU_SOURCE=
    $<$<BOOL:${WEIR_DEBUG_HOOKS}>:WEIR_DEBUG_HOOKS=1>)
target_compile_options(weir_options INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes>
    $<$<BOOL:${WEIR_WERROR}>:-Werror>)

if(WEIR_SANITIZE)
    target_compile_options(weir_options INTERFACE
        -fsanitize=${WEIR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
    target_link_options(weir_options INTERFACE -fsanitize=${WEIR_SANITIZE})
endif()
