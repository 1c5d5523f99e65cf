/* Every operator gives the same bits under any core limit, on any stream, every time. */
#include "opcases.h"

#include <stdlib.h>

struct result {
    void *bytes[2];
    size_t size[2];
};

/* Runs the call on `stream` under a limit of `cores` on both engines. */
static void run_limited(const struct call *c, weir_stream *stream, int cores, struct result *r)
{
    weir_tensor *in[CALL_INPUTS], *out[2] = {NULL, NULL};
    weir_device_props props;
    int most;

    weir_device_get_props(weir_stream_device(stream), &props);
    most = cores < props.cores.cube ? cores : props.cores.cube;
    CHECK_OK(weir_stream_set_current(stream));
    CHECK_OK(weir_stream_set_limit(
        stream, (weir_cores){most, cores < props.cores.vector ? cores : props.cores.vector}));
    call_upload(c, stream, in);
    CHECK_OK(c->op->run(c, in, out));
    for (int i = 0; i < c->nout; i++)
        r->bytes[i] = read_bytes(c->op->flags & OP_IN_PLACE ? in[0] : out[i], &r->size[i]);
    call_release(c->nin, in);
    call_release(2, out);
    weir_stream_reset_limit(stream);
}

static void check_same_bits(weir_device *dev, const char *name)
{
    static const int limits[] = {1, 2, 3, 7, 1 << 20};
    const struct op_case *op = op_case_find(name);
    weir_stream *streams[2] = {new_stream(dev), new_stream(dev)};

    for (int type = 0; type < WEIR_DTYPE_COUNT; type++)
        for (uint64_t salt = 0; salt < 4 / TEST_SLOWDOWN && op->types & 1u << type; salt++) {
            struct result first = {.size = {0}};
            struct call c;

            call_make(&c, op, (weir_dtype)type, 1000 + salt, salt % 2 ? 30000 : 100000);
            for (size_t i = 0; i < countof(limits); i++) {
                struct result r = {.size = {0}};

                test_note("%s %s, salt %llu, %d cores against 1", name,
                          weir_dtype_name((weir_dtype)type), (unsigned long long)salt, limits[i]);
                run_limited(&c, streams[i % 2], limits[i], &r);
                if (i == 0)
                    first = r;
                for (int k = 0; i && k < c.nout; k++) {
                    CHECK_EQ(r.size[k], first.size[k]);
                    CHECK_MEM_EQ(r.bytes[k], first.bytes[k], r.size[k]);
                    free(r.bytes[k]);
                }
            }
            free(first.bytes[0]);
            free(first.bytes[1]);
            call_free(&c);
        }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
}

#define BITS_CASE(name)                                                        \
    CONFORMANCE(bits, name)                                                    \
    {                                                                          \
        check_same_bits(dev, #name);                                           \
    }
OP_CASES(BITS_CASE)
