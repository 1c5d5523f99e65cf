/* Profiles of devices whose engines share their cores, as calibrations write them. */
#include "helpers.h"

#include <unistd.h>

static uint64_t beside(const char *profile)
{
    char path[] = "/tmp/weir-shared-XXXXXX", spec[64];
    struct program p = {.size = 0};
    int fd = mkstemp(path);
    weir_device *dev;
    weir_graph *g;
    uint64_t ps;

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, profile, strlen(profile)), strlen(profile));
    close(fd);
    snprintf(spec, sizeof spec, "npu:%s,overhead=off", path);
    CHECK_OK(weir_device_open(spec, &dev));
    kernel(&p, "mm", "cube", 4, 10, NULL, NULL);
    kernel(&p, "act", "vector", 4, 10, NULL, "side");
    kernel(&p, "both", "mix", 4, 10, "mm act", NULL);
    g = load(dev, p.text);
    ps = makespan(&g, 1);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
    unlink(path);
    return ps;
}

TEST(shared_cores, matrix_and_vector_operators_take_turns)
{
    CHECK_EQ(beside("inherits a3\ncube_cores 4 # x\nvector_cores 8 # x\n"), US(20));
    CHECK_EQ(beside("inherits a3\ncube_cores 4 # x\nvector_cores 4 # x\nshared_cores 1 # x\n"),
             US(30));
}
