/* The files of the timeline page (src/trace/write/page), built into the library. */
#ifndef WEIR_TRACE_WRITE_PAGE_H
#define WEIR_TRACE_WRITE_PAGE_H

struct weir__page_file {
    const char *start, *end;
};

#define WEIR__PAGE_SCRIPTS 5

struct weir__page_file weir__page_html(void);
struct weir__page_file weir__page_css(void);
/* Returns the i-th script, in the order in which the page needs them. */
struct weir__page_file weir__page_script(int i);

#endif
