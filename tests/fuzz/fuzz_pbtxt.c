/* libFuzzer on the loader of graph files. See README.md. */
#include <stdlib.h>
#include <string.h>

#include "weir/graph.h"
#include "weir/weir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* What loads must dump, and load and dump again as the same text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weir_device *dev;
    weir_graph *g, *again;
    char *first, *second;

    if (!dev)
        require(weir_device_open("cpu:threads=1", &dev) == WEIR_OK);
    if (weir_graph_load(dev, (const char *)data, size, "fuzz", &g)) {
        require(g == NULL && *weir_last_error());
        return 0;
    }
    require((first = weir_graph_dump(g)) != NULL);
    require(weir_graph_load(dev, first, strlen(first), "dump", &again) == WEIR_OK);
    require((second = weir_graph_dump(again)) != NULL);
    require(!strcmp(first, second));
    free(first);
    free(second);
    require((first = weir_graph_dot(g)) != NULL);
    free(first);
    weir_graph_destroy(again);
    weir_graph_destroy(g);
    return 0;
}
