#include "sim/profile.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Generated at build time from profiles/: name and text of each profile, sorted by name. */
struct weir__builtin_profile {
    const char *name;
    const char *text;
};
extern const struct weir__builtin_profile weir__builtin_profiles[];

enum { MAX_INHERITED = 4 };

static const struct field {
    const char *key;
    size_t offset;
    double least, most;
} fields[] = {
#define FIELD(key, least, most, what) {#key, offsetof(struct weir__profile, key), least, most},
    WEIR__PROFILE_FIELDS(FIELD)
#undef FIELD
};

static const struct {
    const char *key;
    size_t offset;
} curves[] = {
#define CURVE(key, what)                         \
    {#key, offsetof(struct weir__profile, key)}, \
        {#key "_beside", offsetof(struct weir__profile, key##_beside)},
    WEIR__PROFILE_CURVES(CURVE)
#undef CURVE
};

/* Other common names of some profiles. */
static const struct {
    const char *alias, *name;
} aliases[] = {{"a2", "910b1"}, {"a3", "910_9391"}, {"910b", "910b1"}, {"910c", "910_9391"}};

struct reader {
    const char *where;
    int line, depth;
    struct weir__profile *out;
    bool given[weir__countof(fields)]; /* fields set in this text */
    bool known[weir__countof(fields)]; /* fields set in this text or inherited */
};

const char *weir__profile_at(size_t i)
{
    return weir__builtin_profiles[i].name;
}

const char *weir__profile_text(size_t i)
{
    return weir__builtin_profiles[i].text;
}

static const char *builtin_text(const char *name)
{
    for (size_t i = 0; i < weir__countof(aliases); i++)
        if (!strcasecmp(name, aliases[i].alias))
            name = aliases[i].name;
    for (size_t i = 0; weir__builtin_profiles[i].name; i++)
        if (!strcasecmp(weir__builtin_profiles[i].name, name))
            return weir__builtin_profiles[i].text;
    return NULL;
}

static weir_status no_such(const char *name)
{
    struct weir__text names = {0};
    weir_status st;

    for (size_t i = 0; i < weir__countof(aliases); i++)
        weir__text_add(&names, "%s (%s), ", aliases[i].alias, aliases[i].name);
    for (size_t i = 0; weir__builtin_profiles[i].name; i++)
        weir__text_add(&names, "%s%s", i ? ", " : "", weir__builtin_profiles[i].name);
    st = weir__fail(WEIR_ESPEC, "there is no profile '%s'; there is %s; or name a file by its path",
                    name, names.data ? names.data : "");
    weir__text_free(&names);
    return st;
}

static weir_status read_text(struct reader *r, const char *text);

static weir_status inherit(struct reader *r, const char *name)
{
    const char *text = builtin_text(name);
    struct reader inner = {.where = name, .depth = r->depth + 1, .out = r->out};
    weir_status st;

    if (!text)
        return no_such(name);
    if (inner.depth > MAX_INHERITED)
        return weir__fail(WEIR_EPARSE, "%s:%d: more than %d profiles inherit each other", r->where,
                          r->line, MAX_INHERITED);
    st = read_text(&inner, text);
    memcpy(r->known, inner.known, sizeof r->known);
    snprintf(r->out->base.name, sizeof r->out->base.name, "%.31s", name);
    r->out->base.vector_cores = r->out->vector_cores;
    r->out->base.l2_mib = r->out->l2_mib;
    r->out->base.exchange_us = r->out->exchange_us;
    r->out->base.sdma_gb_s = r->out->sdma_gb_s;
    return st;
}

static weir_status read_number(struct reader *r, const struct field *f, const char *value)
{
    double number;
    char *end;

    errno = 0;
    number = strtod(value, &end);
    if (end == value || *end || errno || !(number >= f->least && number <= f->most))
        return weir__fail(WEIR_EPARSE, "%s:%d: %s is '%s', not a number in %g..%g", r->where,
                          r->line, f->key, value, f->least, f->most);
    *(double *)((char *)r->out + f->offset) = number;
    return WEIR_OK;
}

double weir__curve_at(const struct weir__curve *c, double x)
{
    int i = 0;
    double y, share;

    if (!c->n || !(x > 0))
        return 1;
    if (x <= c->x[0]) /* below the first point the time is constant */
        return c->y[0] * x / c->x[0];
    while (i + 1 < c->n && x > c->x[i + 1])
        i++;
    if (i + 1 == c->n)
        return c->y[i];
    share = log(x / c->x[i]) / log(c->x[i + 1] / c->x[i]);
    y = c->y[i] + share * (c->y[i + 1] - c->y[i]);
    /* The time is never less than that of the previous point. */
    return fmin(y, c->y[i] * x / c->x[i]);
}

static weir_status read_curve(struct reader *r, const char *key, struct weir__curve *c,
                              const char *value)
{
    *c = (struct weir__curve){0};
    for (const char *at = value; *at;) {
        char *colon, *end;
        double x = strtod(at, &colon), y = *colon == ':' ? strtod(colon + 1, &end) : 0;

        if (c->n == WEIR__CURVE_POINTS)
            return weir__fail(WEIR_EPARSE, "%s:%d: %s has more than %d points", r->where, r->line,
                              key, WEIR__CURVE_POINTS);
        if (!(x > 0 && x < 1e30 && y > 0 && y < 1e6) || (*end && *end != ','))
            return weir__fail(WEIR_EPARSE, "%s:%d: %s is '%.60s' there, not x:y,x:y,...", r->where,
                              r->line, key, at);
        if (c->n && (x <= c->x[c->n - 1] || x / y < c->x[c->n - 1] / c->y[c->n - 1] * (1 - 1e-6)))
            return weir__fail(WEIR_EPARSE,
                              "%s:%d: %s: larger operators must take longer, and %g:%g does not",
                              r->where, r->line, key, x, y);
        c->x[c->n] = x;
        c->y[c->n++] = y;
        at = end + (*end == ',');
    }
    return WEIR_OK;
}

static weir_status read_pair(struct reader *r, const char *key, const char *value,
                             const char *source)
{
    if (!strcmp(key, "inherits"))
        return inherit(r, value);
    if (!strcmp(key, "name")) {
        snprintf(r->out->name, sizeof r->out->name, "%s", value);
        snprintf(r->out->about, sizeof r->out->about, "%s", source);
        return WEIR_OK;
    }
    for (size_t i = 0; i < weir__countof(fields); i++) {
        if (strcmp(fields[i].key, key) != 0)
            continue;
        if (!*source)
            return weir__fail(WEIR_EPARSE,
                              "%s:%d: %s has no source: write '%s %s # where it is from'", r->where,
                              r->line, key, key, value);
        if (r->given[i])
            return weir__fail(WEIR_EPARSE, "%s:%d: %s is given twice", r->where, r->line, key);
        r->given[i] = r->known[i] = true;
        return read_number(r, &fields[i], value);
    }
    for (size_t i = 0; i < weir__countof(curves); i++)
        if (!strcmp(curves[i].key, key))
            return read_curve(r, key, (struct weir__curve *)((char *)r->out + curves[i].offset),
                              value);
    return weir__fail(WEIR_EPARSE, "%s:%d: there is no key '%s' in a profile", r->where, r->line,
                      key);
}

static weir_status read_line(struct reader *r, char *line)
{
    char *source = strchr(line, '#'), *key, *value, *rest, *save;

    if (source) {
        *source++ = 0;
        source += strspn(source, " \t\r");
    }
    if (!(key = strtok_r(line, " \t\r", &save)))
        return WEIR_OK;
    value = strtok_r(NULL, " \t\r", &save);
    rest = strtok_r(NULL, " \t\r", &save);
    if (!value || rest)
        return weir__fail(WEIR_EPARSE, "%s:%d: a line is 'key value # source', not '%s %s%s%s'",
                          r->where, r->line, key, value ? value : "", rest ? " " : "",
                          rest ? rest : "");
    return read_pair(r, key, value, source ? source : "");
}

static weir_status read_text(struct reader *r, const char *text)
{
    char *copy = weir__strdup(text);
    weir_status st = WEIR_OK;

    if (!copy)
        return weir__fail_nomem("reading profile %s", r->where);
    for (char *line = copy; line && !st;) {
        char *end = strchr(line, '\n');

        if (end)
            *end++ = 0;
        r->line++;
        st = read_line(r, line);
        line = end;
    }
    weir__free(copy);
    return st;
}

static weir_status check_whole(const struct weir__profile *p, const char *where)
{
    const struct {
        const char *small, *large;
        double few, many;
    } order[] = {{"pair_dies", "node_dies", p->pair_dies, p->node_dies},
                 {"node_dies", "super_dies", p->node_dies, p->super_dies}};

    for (size_t i = 0; i < weir__countof(order); i++)
        if (order[i].few > order[i].many)
            return weir__fail(WEIR_EPARSE, "%s: %s is %g, more than the %g of %s", where,
                              order[i].small, order[i].few, order[i].many, order[i].large);
    return WEIR_OK;
}

weir_status weir__profile_parse(const char *text, const char *where, struct weir__profile *out)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL), before;
    struct reader r = {.where = where, .out = out};
    weir_status st;

    if (!plain)
        return weir__fail_nomem("reading profile %s", where);
    before = uselocale(plain); /* numbers have a decimal point, whatever the user's locale */
    *out = (struct weir__profile){.name = ""};
    st = read_text(&r, text);
    uselocale(before);
    freelocale(plain);
    for (size_t i = 0; i < weir__countof(fields) && !st; i++)
        if (!r.known[i])
            st = weir__fail(WEIR_EPARSE, "%s: %s is missing", where, fields[i].key);
    return st ? st : check_whole(out, where);
}

static weir_status load_file(const char *path, struct weir__profile *out)
{
    enum { MOST = 1 << 20 };
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t n = 0;
    weir_status st;

    if (!f)
        return weir__fail(WEIR_EIO, "profile %s: %s", path, strerror(errno));
    if (!(text = weir__malloc(MOST)))
        st = weir__fail_nomem("allocating profile %s", path);
    else if ((n = fread(text, 1, MOST, f)) == MOST)
        st = weir__fail(WEIR_EPARSE, "profile %s is longer than %d bytes", path, MOST - 1);
    else if (ferror(f))
        st = weir__fail(WEIR_EIO, "profile %s: %s", path, strerror(errno));
    else if (memchr(text, 0, n))
        st = weir__fail(WEIR_EPARSE, "profile %s is not a text", path);
    else {
        text[n] = 0;
        st = weir__profile_parse(text, path, out);
    }
    if (!st && !out->name[0])
        snprintf(out->name, sizeof out->name, "%.31s", path);
    weir__free(text);
    fclose(f);
    return st;
}

weir_status weir__profile_load(const char *name, struct weir__profile *out)
{
    const char *text = builtin_text(name);
    weir_status st;

    if (text) {
        st = weir__profile_parse(text, name, out);
        memset(&out->base, 0, sizeof out->base);
        return st;
    }
    return strpbrk(name, "/.") ? load_file(name, out) : no_such(name);
}
