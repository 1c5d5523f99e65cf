#include "trace/write/page.h"

/* WEIR_PAGE_DIR is the source directory of the page. */
#define EMBED(symbol, file)                                                         \
    __asm__(".section .rodata\n"                                                    \
            ".global weir__page_" #symbol "_start\nweir__page_" #symbol "_start:\n" \
            ".hidden weir__page_" #symbol "_start\n"                                \
            ".incbin \"" WEIR_PAGE_DIR "/" file "\"\n"                              \
            ".global weir__page_" #symbol "_end\nweir__page_" #symbol "_end:\n"     \
            ".hidden weir__page_" #symbol "_end\n"                                  \
            ".byte 0\n.previous\n");                                                \
    extern const char weir__page_##symbol##_start[], weir__page_##symbol##_end[]

#define FILE_OF(symbol) \
    ((struct weir__page_file){weir__page_##symbol##_start, weir__page_##symbol##_end})

EMBED(html_file, "page.html");
EMBED(css_file, "page.css");
EMBED(model, "model.js");
EMBED(draw, "draw.js");
EMBED(view, "view.js");
EMBED(panel, "panel.js");
EMBED(main, "main.js");

struct weir__page_file weir__page_html(void)
{
    return FILE_OF(html_file);
}

struct weir__page_file weir__page_css(void)
{
    return FILE_OF(css_file);
}

struct weir__page_file weir__page_script(int i)
{
    const struct weir__page_file scripts[WEIR__PAGE_SCRIPTS] = {
        FILE_OF(model), FILE_OF(draw), FILE_OF(view), FILE_OF(panel), FILE_OF(main)};

    return scripts[i];
}
