#include "inject.h"

#include <stdlib.h>

static atomic_long countdown, live;
static atomic_bool fired;

static void *counting_alloc(void *user, size_t size, size_t align)
{
    void *p = NULL;

    (void)user;
    if (atomic_load(&countdown) > 0 && atomic_fetch_sub(&countdown, 1) == 1) {
        atomic_store(&fired, true);
        return NULL;
    }
    if (posix_memalign(&p, align < sizeof p ? sizeof p : align, size))
        return NULL;
    memset(p, 0xa5, size); /* nobody may count on zeros */
    atomic_fetch_add(&live, 1);
    return p;
}

static void counting_free(void *user, void *ptr)
{
    (void)user;
    atomic_fetch_sub(&live, 1);
    free(ptr);
}

void inject_install(void)
{
    CHECK_OK(weir_allocator_set(&(weir_allocator){counting_alloc, counting_free, NULL}));
}

void inject_arm(long n)
{
    atomic_store(&fired, false);
    atomic_store(&countdown, n);
}

bool inject_disarm(void)
{
    atomic_store(&countdown, 0);
    return atomic_load(&fired);
}

long inject_live(void)
{
    return atomic_load(&live);
}

/* ---- the world ---- */

static void make_world(struct world *w, const char *spec)
{
    static const float values[24] = {1, 2, 3};

    *w = (struct world){.dev = open_device(spec)};
    w->s = w->streams[0] = weir_stream_default(w->dev);
    for (int i = 1; i < WORLD_STREAMS; i++)
        w->streams[i] = new_stream(w->dev, 0);
    w->other = w->streams[1];
    CHECK_OK(weir_stream_set_current(w->s));
    for (int i = 0; i < WORLD_TENSORS; i++) {
        CHECK_OK(weir_tensor_from(w->s, WEIR_F32, 2, (int64_t[]){4, 6}, values, &w->tensors[i]));
        w->buffers[i] = alloc_on(w->s, 100);
    }
    CHECK_OK(weir_event_create(w->dev, NULL, &w->event));
    CHECK_OK(weir_event_create(w->dev, &(weir_event_options){.timing = true}, &w->timed));
    CHECK_OK(weir_device_sync(w->dev));
}

static void end_world(struct world *w)
{
    open_gate(&w->gate);
    weir_plan_destroy(w->plan);
    weir_graph_destroy(w->graph);
    for (int i = 0; i < WORLD_EXTRA; i++)
        weir_tensor_release(w->extra[i]);
    for (int i = 0; i < WORLD_TENSORS; i++) {
        weir_tensor_release(w->tensors[i]);
        weir_buffer_free(w->buffers[i]);
    }
    weir_event_destroy(w->event);
    weir_event_destroy(w->timed);
    CHECK_OK(weir_device_sync(w->dev));
    CHECK_EQ(stats_of(w->dev).allocated, 0);
    CHECK_EQ(stats_of(w->dev).events_live, 0);
    CHECK_OK(weir_memory_empty_cache(w->dev));
    CHECK_EQ(stats_of(w->dev).reserved, 0);
    CHECK_OK(weir_device_close(w->dev));
    CHECK_EQ(inject_live(), 0);
}

/* Leaves a sentence that no failed allocation would. */
static void set_old_error(char *text, size_t size)
{
    weir_device *dev;

    CHECK_STATUS(weir_device_open("nowhere", &dev), WEIR_ESPEC);
    snprintf(text, size, "%s", weir_last_error());
}

static void check_failure(struct world *w, bool status_fits, weir_status st, const char *old)
{
    const weir_memory_stats *before = &w->before;
    weir_memory_stats after = stats_of(w->dev);

    if (!status_fits)
        FAIL("what was refused gave %s: %s", weir_status_name(st), weir_last_error());
    CHECK(*weir_last_error());
    CHECK(strcmp(weir_last_error(), old));
    CHECK_EQ(after.allocated, before->allocated);
    CHECK_EQ(after.pending, before->pending);
    CHECK_EQ(after.events_live, before->events_live);
    CHECK_EQ(after.reserved, after.allocated + after.pending + after.idle);
}

/* One attempt: whether something was refused. *failures grows if the call said so. */
static bool attempt(const char *spec, inject_prepare prepare, inject_call call, bool driver, long n,
                    int *failures)
{
    struct world w;
    char old[256];
    weir_status st;
    bool refused, fits;

    make_world(&w, spec);
    if (prepare)
        prepare(&w);
    set_old_error(old, sizeof old);
    w.before = stats_of(w.dev);
    if (driver)
        inject_arm_driver(w.dev, n);
    else
        inject_arm(n);
    st = call(&w);
    refused = driver ? inject_disarm_driver() : inject_disarm();
    if (st) {
        CHECK(refused);
        /* Memory that the driver does not map is out of memory, too. */
        fits = st == WEIR_EOOM || st == (driver ? INJECT_DRIVER_STATUS : WEIR_ENOMEM);
        check_failure(&w, fits, st, old);
        ++*failures;
        CHECK_OK(call(&w));
    }
    end_world(&w);
    return refused;
}

static int each(const char *name, const char *spec, inject_prepare prepare, inject_call call,
                bool driver)
{
    bool refused = true;
    int failures = 0;

    for (long n = 1; refused; n++) {
        test_note("%s on %s, %s %ld", name, spec, driver ? "driver call" : "allocation", n);
        CHECK_LT(n, 10000);
        refused = attempt(spec, prepare, call, driver, n, &failures);
    }
    test_note("%s", "");
    return failures;
}

int inject_each(const char *name, const char *spec, inject_call call)
{
    return each(name, spec, NULL, call, false);
}

int inject_each_in(const char *name, const char *spec, inject_prepare prepare, inject_call call)
{
    return each(name, spec, prepare, call, false);
}

int inject_each_driver_call(const char *name, const char *spec, inject_prepare prepare,
                            inject_call call)
{
    return each(name, spec, prepare, call, true);
}
