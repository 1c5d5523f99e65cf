/* Measures why two products on half the cores each are slower than one on all: the same with
 * operands that draw less power and with products that do not use tensor cores. It also prints the
 * GPU's clock and power meanwhile, if NVIDIA's management library is there. */
#include <dlfcn.h>
#include <time.h>

#include "figures.h"

enum { SIZE = 4096, F32_SIZE = 2048, CORES = 64, CLOCK_SM = 1, SAMPLE_NS = 40000000 };
static const char work[] = "limits, why";

struct meter {
    void *gpu;
    int (*clock)(void *gpu, int type, unsigned *mhz);
    int (*power)(void *gpu, unsigned *milliwatts);
};

/* false if the library is not there. */
static bool open_meter(struct meter *m)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void), (*find)(unsigned index, void **gpu);

    if (!library)
        return false;
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&find = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&m->clock = dlsym(library, "nvmlDeviceGetClockInfo");
    *(void **)&m->power = dlsym(library, "nvmlDeviceGetPowerUsage");
    return init && find && m->clock && m->power && !init() && !find(0, &m->gpu);
}

struct pair {
    weir_stream *s[2];
    weir_tensor *a[2], *b[2], *c[2];
};

static void run(const struct pair *x, int n)
{
    for (int i = 0; i < n; i++) {
        check(weir_stream_set_current(x->s[i]));
        check(weir_matmul_into(x->a[i], x->b[i], x->c[i]));
    }
}

/* Read in the middle of about 0.1 s of products. */
static void sample(weir_device *dev, const struct meter *m, const struct pair *x, int n,
                   const char *what)
{
    unsigned mhz = 0, milliwatts = 0;
    char text[96];

    for (int i = 0; i < 250; i++)
        run(x, n);
    nanosleep(&(struct timespec){0, SAMPLE_NS}, NULL);
    m->clock(m->gpu, CLOCK_SM, &mhz);
    m->power(m->gpu, &milliwatts);
    check(weir_device_sync(dev));
    snprintf(text, sizeof text, "clock, %s", what);
    printf("%-24s %-44s %10.3f %s\n", work, text, (double)mhz, "MHz");
    snprintf(text, sizeof text, "power, %s", what);
    printf("%-24s %-44s %10.3f %s\n", work, text, milliwatts / 1e3, "W");
}

static void measure(weir_device *dev, const struct meter *m, const struct pair *x, const char *what)
{
    static const char *const how[] = {"one", "two"};
    char text[64];

    run(x, 2);
    check(weir_device_sync(dev));
    for (int n = 1; n <= 2; n++) {
        snprintf(text, sizeof text, "%s, %s", how[n - 1], what);
        THROUGHPUT(work, text, "us", 40, run(x, n), weir_device_sync(dev));
        if (m)
            sample(dev, m, x, n, text);
    }
}

static void make_pair(struct pair *x, weir_dtype dtype, int64_t size)
{
    for (int i = 0; i < 2; i++) {
        x->a[i] = random_matrix(x->s[i], dtype, size, size);
        x->b[i] = random_matrix(x->s[i], dtype, size, size);
        x->c[i] = random_matrix(x->s[i], dtype, size, size);
    }
}

static void drop_pair(struct pair *x)
{
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(x->a[i]);
        weir_tensor_release(x->b[i]);
        weir_tensor_release(x->c[i]);
    }
}

void power(weir_device *dev)
{
    struct meter meter;
    const struct meter *m = open_meter(&meter) ? &meter : NULL;
    struct pair x;

    for (int i = 0; i < 2; i++) {
        check(weir_stream_create(dev, NULL, &x.s[i]));
        check(weir_stream_set_limit(x.s[i], (weir_cores){CORES, CORES}));
    }
    make_pair(&x, WEIR_F16, SIZE);
    measure(dev, m, &x, "4096^3 f16 on 64 cores");
    for (int i = 0; i < 2; i++) {
        check(weir_stream_set_current(x.s[i]));
        check(weir_fill(x.a[i], 0));
        check(weir_fill(x.b[i], 0));
    }
    measure(dev, m, &x, "4096^3 f16 zeros on 64 cores");
    drop_pair(&x);
    make_pair(&x, WEIR_F32, F32_SIZE);
    measure(dev, m, &x, "2048^3 f32 on 64 cores");
    drop_pair(&x);
    for (int i = 0; i < 2; i++)
        weir_stream_destroy(x.s[i]);
    check(weir_stream_set_current(weir_stream_default(dev)));
}
