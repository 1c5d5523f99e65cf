#include "check/race/watch.h"
#include "check/race/found.h"
#include "check/race/slots.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/sized.h"

static struct {
    struct weir__mutex lock;
    uint32_t epoch;
    struct weir__race_order order;
    struct weir__race_region outside; /* memory that is not weir's own */
    struct weir__race_region *inside; /* memory that is, buffer by buffer */
    struct weir__race_pairs pairs;    /* not judged yet */
    struct {
        struct weir__race_name *name;
        char stream[48], device[64];
    } * names;
    int cap_names;
    struct weir__race_found found;
    weir_race_stats stats;
} watch;

static _Thread_local struct {
    const char *file;
    int line;
} source;

void weir_source_set(const char *file, int line)
{
    source.file = file;
    source.line = line;
}

/* Forgets everything. Under the lock. */
static void begin_anew(void)
{
    weir__race_order_fini(&watch.order);
    weir__race_region_fini(&watch.outside);
    weir__race_pairs_fini(&watch.pairs);
    weir__free(watch.names);
    weir__free(watch.found.at);
    watch.names = NULL;
    watch.found = (struct weir__race_found){0};
    watch.cap_names = 0;
    watch.stats = (weir_race_stats){0};
    watch.epoch++;
}

void weir__race_switch(weir_race_mode mode)
{
    weir__mutex_lock(&watch.lock);
    begin_anew();
    /* Its records outlive devices: hold the allocator while it is on. */
    weir__allocator_hold((mode != WEIR_RACE_OFF) - weir__race_on());
    atomic_store(&weir__race_mode, mode);
    weir__mutex_unlock(&watch.lock);
}

/* ---- streams: under the lock ---- */

/* -1 when out of memory. */
static int id_of(struct weir__race_stream s)
{
    int id;

    if (s.name->epoch == watch.epoch)
        return s.name->id;
    if (!weir__grow(&watch.names, watch.order.nstreams, &watch.cap_names, sizeof *watch.names) ||
        (id = weir__race_add_stream(&watch.order, s.queued)) < 0) {
        watch.stats.lost++;
        return -1;
    }
    watch.names[id].name = s.name;
    snprintf(watch.names[id].stream, sizeof watch.names[id].stream, "%s", s.text);
    snprintf(watch.names[id].device, sizeof watch.names[id].device, "%s", s.device);
    *s.name = (struct weir__race_name){id, watch.epoch};
    return id;
}

bool weir__race_has_seen(struct weir__race_stream s)
{
    bool seen;

    weir__mutex_lock(&watch.lock);
    seen = s.name->epoch != watch.epoch || watch.order.host[s.name->id] >= s.queued;
    weir__mutex_unlock(&watch.lock);
    return seen;
}

void weir__race_rename(struct weir__race_name *name)
{
    weir__mutex_lock(&watch.lock);
    *name = (struct weir__race_name){0};
    weir__mutex_unlock(&watch.lock);
}

void weir__race_see_wait(struct weir__race_stream s, struct weir__race_stream from, uint64_t seq)
{
    int id, other;

    weir__mutex_lock(&watch.lock);
    if ((id = id_of(s)) >= 0 && (other = id_of(from)) >= 0 && id != other &&
        weir__race_wait(&watch.order, id, s.queued + 1, other, seq))
        watch.stats.lost++;
    weir__mutex_unlock(&watch.lock);
}

/* ---- operators ---- */

/* Where the accesses to the operand are kept; NULL when out of memory. */
static struct weir__race_region *region_of(const struct weir__race_operand *o, bool make)
{
    struct weir__race_region *r = o->region ? *o->region : &watch.outside;

    if (!r && make && (r = *o->region = weir__calloc(1, sizeof *r))) {
        r->first = o->first;
        r->end = o->end;
        r->next = watch.inside;
        r->was = &watch.inside;
        if (r->next)
            r->next->was = &r->next;
        watch.inside = r;
    }
    if (r && r->epoch != watch.epoch) {
        r->n = 0;
        r->epoch = watch.epoch;
    }
    return r;
}

/* Where else accesses to the bytes of an operand may be kept, `after` one: a program may wrap
 * memory of weir's pool as memory from outside, so in regions of the other kind than its own. NULL
 * at the end. */
static const struct weir__race_region *other_region(const struct weir__race_operand *o,
                                                    const struct weir__race_region *after)
{
    const struct weir__race_region *r;

    if (weir__likely(o->region))
        return !after && weir__unlikely(watch.outside.n) && watch.outside.epoch == watch.epoch
                   ? &watch.outside
                   : NULL;
    r = after ? after->next : watch.inside;
    while (r && (r->epoch != watch.epoch || r->end <= o->bytes.first || o->bytes.end <= r->first))
        r = r->next;
    return r;
}

/* An operator's name and what a record keeps of it. */
struct name {
    const char *text;
    size_t length;
};

static struct name name_of(const char *op)
{
    return (struct name){op, strnlen(op, sizeof((struct weir__race_record *)0)->op - 1)};
}

/* Of lists only as much as there is in them: this is done for every operand. */
static inline void fill_record(struct weir__race_record *r, int id, uint64_t seq, struct name op,
                               const struct weir__race_operand *o)
{
    r->seq = seq;
    r->stream = id;
    r->writes = o->writes;
    r->bytes.first = o->bytes.first;
    r->bytes.end = o->bytes.end;
    r->bytes.run = o->bytes.run;
    r->bytes.ndim = o->bytes.ndim;
    for (int d = 0; d < o->bytes.ndim; d++) {
        r->bytes.count[d] = o->bytes.count[d];
        r->bytes.step[d] = o->bytes.step[d];
    }
    r->owner = o->owner;
    r->shape.type = o->type;
    r->shape.ndim = o->ndim;
    for (int d = 0; d < o->ndim; d++)
        r->shape.size[d] = o->size[d];
    r->file = source.file;
    r->line = source.line;
    memcpy(r->op, op.text, op.length);
    r->op[op.length] = 0;
}

static weir_race_access access_of(const struct weir__race_record *r)
{
    return weir__race_access(r, watch.names[r->stream].stream, watch.names[r->stream].device);
}

/* Keeps the race and adds its sentence to the text, which is logged once the lock is free:
 * loggers may ask us. */
static void found(const weir_race *race, struct weir__text *text)
{
    watch.stats.races++;
    watch.stats.waits_inserted += race->fixed;
    watch.stats.lost += !weir__race_keep(&watch.found, race);
    weir__text_add(text, text->size ? "; race: " : "race: ");
    weir__race_say(text, race);
}

static void log_found(struct weir__text *text)
{
    if (text->size)
        weir__log(WEIR_LOG_WARN, "%s", text->data);
    weir__text_free(text);
}

/* Asks for the newest command of that stream only: it implies the others. */
static weir_status ask(struct weir__race_missing *missing, struct weir__race_name *name,
                       uint64_t seq)
{
    for (int i = 0; i < missing->n; i++)
        if (missing->at[i].name == name) {
            if (missing->at[i].seq < seq)
                missing->at[i].seq = seq;
            return WEIR_OK;
        }
    if (!weir__grow(&missing->at, missing->n, &missing->cap, sizeof *missing->at))
        return WEIR_ENOMEM;
    missing->at[missing->n++] = (struct weir__race_wait_for){name, seq};
    return WEIR_OK;
}

/* An operator that is about to be queued, with the accesses of one region. */
struct comparison {
    weir_race_mode mode;
    int id;
    uint64_t seq;
    const char *op;
    struct weir__race_missing *missing;
    struct weir__text *text;
};

/* The operator races with `r`. Apart from the search, which finds nothing in most programs: this
 * needs a large frame. */
static __attribute__((noinline)) weir_status report(const struct comparison *c,
                                                    const struct weir__race_record *r,
                                                    const struct weir__race_operand *o)
{
    struct weir__race_record now;
    weir_race race;

    fill_record(&now, c->id, c->seq, name_of(c->op), o);
    race = (weir_race){.first = access_of(r),
                       .second = access_of(&now),
                       .ordered_up_to = weir__race_ordered(&watch.order, c->id, r->stream),
                       .fixed = c->mode == WEIR_RACE_AUTOSYNC,
                       .times = 1};
    found(&race, c->text);
    if (c->mode == WEIR_RACE_AUTOSYNC)
        return ask(c->missing, watch.names[r->stream].name, r->seq);
    if (c->mode == WEIR_RACE_ERROR)
        return weir__fail(WEIR_ERACE, "%s: let stream '%s' wait for it first",
                          c->text->data ? c->text->data : c->op, race.second.stream);
    return WEIR_OK;
}

static weir_status compare(const struct comparison *c, const struct weir__race_region *region,
                           const struct weir__race_operand *o)
{
    const struct weir__race_record *r;
    weir_status st = WEIR_OK;

    for (int at = 0;
         !st && (r = weir__race_find(&watch.order, region, c->id, &o->bytes, o->writes, &at));)
        if (weir__race_is_decided(&watch.order, r, c->id, c->seq))
            st = report(c, r, o);
    return st;
}

weir_status weir__race_before(struct weir__race_stream s, const char *op,
                              const struct weir__race_operand *operands, int n,
                              struct weir__race_missing *missing)
{
    weir_race_mode mode = weir_race_get_mode();
    struct weir__text text = {0};
    weir_status st = WEIR_OK;
    int id;

    weir__mutex_lock(&watch.lock);
    id = id_of(s);

    const struct comparison c = {mode, id, s.queued + 1, op, missing, &text};

    for (int i = 0; i < n && id >= 0 && !st; i++) {
        const struct weir__race_operand *o = &operands[i];
        const struct weir__race_region *region = region_of(o, false), *other = NULL;

        if (region)
            st = compare(&c, region, o);
        while (!st && (other = other_region(o, other)))
            st = compare(&c, other, o);
    }
    weir__mutex_unlock(&watch.lock);
    if (mode == WEIR_RACE_ERROR)
        weir__text_free(&text);
    else
        log_found(&text);
    return st;
}

/* Keeps the pairs that the access makes with others and that collectives may yet order. */
static void suspect(const struct weir__race_region *region, int id, uint64_t seq, const char *op,
                    const struct weir__race_operand *o)
{
    const struct weir__race_record *r;
    struct weir__race_record now;

    for (int at = 0; (r = weir__race_find(&watch.order, region, id, &o->bytes, o->writes, &at));) {
        if (weir__race_is_decided(&watch.order, r, id, seq))
            continue;
        fill_record(&now, id, seq, name_of(op), o);
        watch.stats.lost += weir__race_suspect(&watch.pairs, r, &now) != WEIR_OK;
    }
}

static void suspect_all(const struct weir__race_region *region, int id, uint64_t seq,
                        const char *op, const struct weir__race_operand *o)
{
    const struct weir__race_region *other = NULL;

    if (region)
        suspect(region, id, seq, op, o);
    while ((other = other_region(o, other)))
        suspect(other, id, seq, op, o);
}

/* With autosync a wait too many is better than one too few. */
static weir_status reserve(struct weir__race_region *region, int id,
                           const struct weir__race_operand *o, struct weir__race_record **r)
{
    weir_status st = weir__race_reserve(&watch.order, region, id, &o->bytes, o->writes, r);

    if (st != WEIR_ERANGE || weir_race_get_mode() != WEIR_RACE_AUTOSYNC)
        return st;
    weir__race_coarsen(region);
    return weir__race_reserve(&watch.order, region, id, &o->bytes, o->writes, r);
}

void weir__race_after(struct weir__race_stream s, const char *op,
                      const struct weir__race_operand *operands, int n)
{
    const struct name name = name_of(op);
    uint64_t seq = s.queued;
    int id;

    weir__mutex_lock(&watch.lock);
    watch.stats.operators++;
    s.queued -= s.queued > 0; /* a new stream counts as seen up to the command before this one */
    id = id_of(s);
    for (int i = 0; i < n && id >= 0; i++) {
        const struct weir__race_operand *o = &operands[i];
        struct weir__race_region *region = region_of(o, true);
        struct weir__race_record *r;

        if (weir__unlikely(watch.order.open))
            suspect_all(region, id, seq, op, o);
        if (!region || reserve(region, id, o, &r))
            watch.stats.lost++;
        else
            fill_record(r, id, seq, name, o);
    }
    weir__mutex_unlock(&watch.lock);
}

/* ---- what may decide pairs ---- */

static void judge(struct weir__text *text)
{
    struct weir__race_pair pair;

    while (weir__race_judge(&watch.order, &watch.pairs, &pair)) {
        weir_race race = {.first = access_of(&pair.first),
                          .second = access_of(&pair.second),
                          .ordered_up_to = weir__race_ordered_at(
                              &watch.order, pair.second.stream, pair.second.seq, pair.first.stream),
                          .times = 1};

        found(&race, text);
    }
}

void weir__race_see_host(struct weir__race_stream s, uint64_t seq)
{
    struct weir__text text = {0};
    int id;

    weir__mutex_lock(&watch.lock);
    if ((id = id_of(s)) >= 0)
        weir__race_host_saw(&watch.order, id, seq);
    if (watch.pairs.n)
        judge(&text);
    weir__mutex_unlock(&watch.lock);
    log_found(&text);
}

void weir__race_see_call(struct weir__race_stream s, const void *channel, uint64_t call, int ranks)
{
    uint64_t seq = s.queued;
    struct weir__text text = {0};
    int id;

    weir__mutex_lock(&watch.lock);
    s.queued -= s.queued > 0;
    if ((id = id_of(s)) >= 0 && weir__race_meet(&watch.order, id, seq, channel, call, ranks))
        judge(&text);
    weir__mutex_unlock(&watch.lock);
    log_found(&text);
}

void weir__race_see_end(const void *channel)
{
    struct weir__text text = {0};

    weir__mutex_lock(&watch.lock);
    weir__race_leave(&watch.order, channel);
    judge(&text);
    weir__mutex_unlock(&watch.lock);
    log_found(&text);
}

void weir__race_forget(struct weir__race_region **region, const void *owner)
{
    weir__mutex_lock(&watch.lock);
    if (region && *region) {
        *(*region)->was = (*region)->next;
        if ((*region)->next)
            (*region)->next->was = (*region)->was;
        weir__race_region_fini(*region);
        weir__free(*region);
        *region = NULL;
    } else if (!region) {
        weir__race_drop_owner(&watch.outside, owner);
    }
    weir__mutex_unlock(&watch.lock);
}

/* ---- what was found ---- */

size_t weir_race_list(weir_race *out, size_t size, size_t max)
{
    size_t n;

    weir__mutex_lock(&watch.lock);
    n = (size_t)watch.found.n;
    for (size_t i = 0; i < n && i < max; i++)
        weir__sized_give((char *)out + i * size, size, &watch.found.at[i], sizeof *watch.found.at);
    weir__mutex_unlock(&watch.lock);
    return n;
}

void weir_race_get_stats(weir_race_stats *out, size_t size)
{
    weir_race_stats stats;

    if (!out)
        return;
    weir__mutex_lock(&watch.lock);
    stats = watch.stats;
    stats.lost += watch.order.forgotten;
    weir__mutex_unlock(&watch.lock);
    weir__sized_give(out, size, &stats, sizeof stats);
}

char *weir_race_report(void)
{
    struct weir__text text = {0};

    weir__mutex_lock(&watch.lock);
    weir__race_report_all(&text, &watch.found, watch.stats.operators,
                          watch.stats.lost + watch.order.forgotten);
    weir__mutex_unlock(&watch.lock);
    if (text.failed) {
        weir__text_free(&text);
        return NULL;
    }
    return text.data;
}
