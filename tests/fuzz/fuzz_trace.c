/* libFuzzer on the loader of traces and profiles. See README.md. */
#include <stdlib.h>

#include "weir/weir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* What loads can be summed up and written in every form. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weir_trace_summary sum;
    weir_trace_data d;
    weir_trace *t;

    if (weir_trace_parse((const char *)data, size, "fuzz", &t)) {
        require(t == NULL && *weir_last_error());
        return 0;
    }
    weir_trace_get(t, &d, sizeof d);
    require(weir_trace_summarise(t, &sum, sizeof sum) == WEIR_OK);
    require(weir_trace_write_chrome(t, "/dev/null") == WEIR_OK);
    require(weir_trace_write_html((const weir_trace *[]){t}, NULL, 1, "/dev/null") == WEIR_OK);
    for (uint32_t i = 0; i < d.ndevices; i++)
        require(weir_trace_write_graph(t, i, "/dev/null") == WEIR_OK);
    weir_trace_free(t);
    return 0;
}
