/* libFuzzer on the control channel's messages, as a connection gets them. See README.md.
 *
 * The input is a list of messages: a byte for the type, one for what is wrong with the header, one
 * for how many bytes follow, times 8, and these; the rest of a payload is zeros. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/procs/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RAW = 1, HALF = 2, VERSION = 4, SIZE = 8, TYPES = 16, PIECE = 3001 };

static const size_t sizes[TYPES] = {
    [WEIR__WIRE_HELLO] = sizeof(struct weir__wire_hello),
    [WEIR__WIRE_WELCOME] = sizeof(struct weir__wire_welcome),
    [WEIR__WIRE_REFUSED] = sizeof(struct weir__wire_refused),
    [WEIR__WIRE_GATHER] = sizeof(struct weir__wire_gather),
    [WEIR__WIRE_GATHERED] = sizeof(struct weir__wire_gathered),
    [WEIR__WIRE_FAILED] = sizeof(struct weir__wire_text),
    [WEIR__WIRE_PING] = sizeof(struct weir__wire_ping),
    [WEIR__WIRE_PONG] = sizeof(struct weir__wire_ping),
    [WEIR__WIRE_ABORT] = sizeof(struct weir__wire_text),
    [WEIR__WIRE_GONE] = sizeof(struct weir__wire_gone),
    [WEIR__WIRE_CLOSES] = sizeof(struct weir__wire_close),
    [WEIR__WIRE_RECEIVED] = sizeof(struct weir__wire_close),
};

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* Reads the next message of the input into `to`, and returns its size. */
static size_t next_message(const uint8_t **data, size_t *left, char *to)
{
    struct weir__wire_header h = {WEIR__WIRE_MAGIC, 0, WEIR__WIRE_VERSION, 0};
    const uint8_t *d = *data;
    size_t given = *left < 3 ? 0 : d[2] * (size_t)8, size;
    uint8_t how = *left < 3 ? 0 : d[1];

    if (*left < 3) {
        *left = 0;
        return 0;
    }
    if (given > *left - 3)
        given = *left - 3;
    *data += 3 + given;
    *left -= 3 + given;
    if (how & RAW) {
        memcpy(to, d + 3, given);
        return given;
    }
    h.type = d[0] % TYPES;
    h.size = (uint32_t)sizes[h.type];
    memset(to, 0, WEIR__WIRE_MOST);
    memcpy(to + sizeof h, d + 3, given);
    if (h.type == WEIR__WIRE_GATHERED) {
        struct weir__ranks members;

        memcpy(&members, to + sizeof h + offsetof(struct weir__wire_gathered, members),
               sizeof members);
        h.size = (uint32_t)weir__wire_gathered_size(&members);
    }
    size = sizeof h + h.size;
    h.version = (uint16_t)(h.version + !!(how & VERSION));
    if (how & SIZE)
        h.size = how * UINT32_C(0x01010101);
    memcpy(to, &h, sizeof h);
    return how & HALF ? size / 2 : size;
}

static bool ends(const char *text, size_t size)
{
    return memchr(text, 0, size);
}

/* What users of a message that was taken rely on. */
static void check(enum weir__wire_type type, const void *payload)
{
    const struct weir__wire_text *text = payload;
    const struct weir__wire_gathered *all = payload;
    const struct weir__wire_gone *gone = payload;
    const struct weir__wire_close *close = payload;

    require((int)type < (int)TYPES &&
            (sizes[type] || type == WEIR__WIRE_BYE || type == WEIR__WIRE_MOVED));
    if (type == WEIR__WIRE_ABORT || type == WEIR__WIRE_FAILED)
        require(ends(text->key, sizeof text->key) && ends(text->text, sizeof text->text) &&
                text->status > 0 && text->status < WEIR_STATUS_COUNT);
    if (type == WEIR__WIRE_GATHERED)
        require(ends(all->key, sizeof all->key) &&
                weir__wire_gathered_size(&all->members) <= sizeof *all);
    if (type == WEIR__WIRE_GONE)
        require(ends(gone->text, sizeof gone->text) && gone->rank < WEIR_MAX_RANKS &&
                gone->how > 0 && gone->how <= 3);
    if (type == WEIR__WIRE_CLOSES || type == WEIR__WIRE_RECEIVED)
        require(ends(close->key, sizeof close->key) && close->from < WEIR_MAX_RANKS &&
                close->to < WEIR_MAX_RANKS && close->from != close->to &&
                close->messages <= WEIR__WIRE_MESSAGES);
}

/* Takes all that has arrived. False if the connection has sent something that is no message. */
static bool take(struct weir__conn *c, char *payload, size_t most)
{
    enum weir__wire_type type;
    const char *wrong;
    int n;

    require(weir__conn_fill(c) && c->have <= most && c->in_cap == most);
    while ((n = weir__conn_next(c, &type, payload, &wrong)) > 0)
        check(type, payload);
    require((n < 0) == (wrong != NULL));
    return n == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static _Alignas(8) char message[WEIR__WIRE_MOST + 2048], payload[WEIR__WIRE_MOST];
    /* A hub's connection, or a rank's. */
    size_t most = size && data[0] & 0x80 ? WEIR__WIRE_SHORT : WEIR__WIRE_MOST;
    struct weir__conn c;
    int pair[2];
    bool valid = true;

    require(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    require(weir__conn_open(&c, pair[0], most));
    while (valid && size) {
        size_t n = next_message(&data, &size, message);

        for (size_t at = 0; valid && at < n; at += PIECE) {
            size_t piece = n - at < PIECE ? n - at : PIECE;

            require(write(pair[1], message + at, piece) == (ssize_t)piece);
            valid = take(&c, payload, most);
        }
    }
    weir__conn_close(&c);
    close(pair[1]);
    return 0;
}
