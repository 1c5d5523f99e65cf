/* Reads requests of a published trace, one per line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph/estimate/serve.h"
#include "trace/read/json_read.h"

void weir__requests_fini(struct weir__requests *r)
{
    weir__free(r->list);
    weir__free(r->blocks);
    *r = (struct weir__requests){0};
}

static double number(struct weir__json *j, double least, const char *what)
{
    double value = (double)weir__json_number(j);

    if (!j->bad && !(value >= least && value <= 0x1p62))
        weir__json_fail(j, WEIR_EPARSE, what);
    return value;
}

static void read_blocks(struct weir__json *j, struct weir__requests *r, struct weir__request *q)
{
    q->first_block = (uint32_t)r->nblocks;
    for (weir__json_array(j); weir__json_item(j);) {
        double id = number(j, 0, "a block of a prompt is a number, 0 or more");

        if (!weir__grow(&r->blocks, r->nblocks, &r->cap_blocks, sizeof *r->blocks))
            weir__json_fail(j, WEIR_ENOMEM,
                            "out of host memory: reading the blocks of the requests");
        else
            r->blocks[r->nblocks++] = (uint64_t)id;
    }
    q->nblocks = (uint32_t)r->nblocks - q->first_block;
}

static void read_request(struct weir__json *j, struct weir__requests *r)
{
    struct weir__request q = {.at_ms = NAN, .prompt = NAN, .output = NAN};
    char key[32];

    for (weir__json_object(j); weir__json_key(j, key, sizeof key);)
        if (!strcmp(key, "timestamp"))
            q.at_ms = number(j, 0, "a timestamp is in milliseconds, 0 or more");
        else if (!strcmp(key, "input_length"))
            q.prompt = number(j, 1, "a prompt has a token at least");
        else if (!strcmp(key, "output_length"))
            q.output = number(j, 1, "an answer has a token at least");
        else if (!strcmp(key, "hash_ids"))
            read_blocks(j, r, &q);
        else
            weir__json_skip(j);
    if (!j->bad && (isnan(q.at_ms) || isnan(q.prompt) || isnan(q.output)))
        weir__json_fail(j, WEIR_EPARSE, "a request has timestamp, input_length and output_length");
    if (!j->bad && !weir__grow(&r->list, r->n, &r->cap, sizeof *r->list))
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the requests");
    if (!j->bad)
        r->list[r->n++] = q;
}

static int by_arrival(const void *x, const void *y)
{
    const struct weir__request *a = x, *b = y;

    if (a->at_ms != b->at_ms)
        return a->at_ms < b->at_ms ? -1 : 1;
    return (a->first_block > b->first_block) - (a->first_block < b->first_block);
}

weir_status weir__requests_parse(const char *text, size_t size, const char *path,
                                 struct weir__requests *out)
{
    struct weir__json j;

    *out = (struct weir__requests){0};
    weir__json_init(&j, path, text, size);
    for (;;) {
        while (j.at < j.end && strchr(" \t\r\n", *j.at))
            j.at++;
        if (j.at == j.end || j.bad)
            break;
        read_request(&j, out);
    }
    if (!j.bad && !out->n)
        weir__json_fail(&j, WEIR_EPARSE, "no request: a line has a JSON object each");
    weir__json_fini(&j);
    if (j.bad) {
        weir__requests_fini(out);
        return weir__last_status();
    }
    qsort(out->list, (size_t)out->n, sizeof *out->list, by_arrival);
    return WEIR_OK;
}

weir_status weir__requests_load(const char *path, struct weir__requests *out)
{
    char *data;
    size_t size;
    weir_status st = weir__file_read(path, (size_t)1 << 32, "trace of requests", &data, &size);

    *out = (struct weir__requests){0};
    if (!st)
        st = weir__requests_parse(data, size, path, out);
    weir__free(data);
    return st;
}
