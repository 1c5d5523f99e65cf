#define _GNU_SOURCE
#include "comm/procs/proof.h"

#include <string.h>
#include <sys/random.h>

#include "base/lock.h"

/* ---- SHA-256 (FIPS 180-4) ---- */

enum { BLOCK = 64 };

struct sha {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[BLOCK];
};

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void add_block(struct sha *s)
{
    uint32_t w[64], v[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
               (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] +
               (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t one = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                       ((e & v[5]) ^ (~e & v[6])) + rounds[i] + w[i];
        uint32_t two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                       ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        s->h[i] += v[i];
}

static void begin(struct sha *s)
{
    *s = (struct sha){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                            0x1f83d9ab, 0x5be0cd19}};
}

static void add(struct sha *s, const void *data, size_t size)
{
    for (const unsigned char *p = data; size--; p++) {
        s->block[s->bytes++ % BLOCK] = *p;
        if (s->bytes % BLOCK == 0)
            add_block(s);
    }
}

static void end(struct sha *s, unsigned char *out)
{
    uint64_t bits = 8 * s->bytes;

    add(s, (unsigned char[]){0x80}, 1);
    while (s->bytes % BLOCK != BLOCK - 8)
        add(s, (unsigned char[]){0}, 1);
    for (int i = 56; i >= 0; i -= 8)
        add(s, (unsigned char[]){(unsigned char)(bits >> i)}, 1);
    for (int i = 0; i < WEIR__WIRE_PROOF; i++)
        out[i] = (unsigned char)(s->h[i / 4] >> (24 - i % 4 * 8));
}

/* ---- proofs ---- */

/* HMAC of two pieces of data, one after the other. */
static void prove(const char *key, const void *first, size_t nfirst, const void *data, size_t size,
                  unsigned char *out)
{
    unsigned char pad[BLOCK] = {0}, inner[WEIR__WIRE_PROOF];
    struct sha s;

    _Static_assert((int)WEIR__WIRE_TOKEN <= (int)BLOCK, "a key is not hashed first");
    memcpy(pad, key, strnlen(key, WEIR__WIRE_TOKEN));
    for (int i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36;
    begin(&s);
    add(&s, pad, BLOCK);
    add(&s, first, nfirst);
    add(&s, data, size);
    end(&s, inner);
    for (int i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    begin(&s);
    add(&s, pad, BLOCK);
    add(&s, inner, sizeof inner);
    end(&s, out);
}

/* Compares in constant time. */
static bool is_same(const unsigned char *a, const unsigned char *b)
{
    unsigned differ = 0;

    for (int i = 0; i < WEIR__WIRE_PROOF; i++)
        differ |= (unsigned)(a[i] ^ b[i]);
    return !differ;
}

void weir__proof(const char *key, const void *data, size_t size,
                 unsigned char out[WEIR__WIRE_PROOF])
{
    prove(key, "", 0, data, size, out);
}

void weir__proof_of_hello(const char *token, struct weir__wire_hello *m)
{
    uint64_t now = weir__clock_ns();

    if (getrandom(m->random, sizeof m->random, 0) != sizeof m->random)
        memcpy(m->random, &now, sizeof now); /* still another HELLO than before */
    weir__proof(token, m, offsetof(struct weir__wire_hello, proof), m->proof);
}

bool weir__proves_hello(const char *token, const struct weir__wire_hello *m)
{
    unsigned char proof[WEIR__WIRE_PROOF];

    weir__proof(token, m, offsetof(struct weir__wire_hello, proof), proof);
    return is_same(proof, m->proof);
}

void weir__proof_of_answer(const char *token, const unsigned char *hello, void *answer, size_t size)
{
    size -= WEIR__WIRE_PROOF;
    prove(token, hello, WEIR__WIRE_PROOF, answer, size, (unsigned char *)answer + size);
}

bool weir__proves_answer(const char *token, const unsigned char *hello, const void *answer,
                         size_t size)
{
    unsigned char proof[WEIR__WIRE_PROOF];

    size -= WEIR__WIRE_PROOF;
    prove(token, hello, WEIR__WIRE_PROOF, answer, size, proof);
    return is_same(proof, (const unsigned char *)answer + size);
}
