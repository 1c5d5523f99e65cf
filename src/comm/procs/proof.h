/* Proofs of the token: a rank and a hub show each other that they know it, and never send it. A
 * rank may reach a port at which the process that it looks for does not listen any more, but
 * somebody else.
 *
 *   HELLO     proves the token for the rank, what it asks for, the rank whose hub it is for, and
 *             random bytes. So nobody can pass it on to another hub
 *   WELCOME,  prove it for the HELLO that they answer: so they are of that hub, and not of an
 *   REFUSED   earlier connection
 *
 * A proof is HMAC-SHA-256 (RFC 2104) with the token as the key. */
#ifndef WEIR_COMM_PROCS_PROOF_H
#define WEIR_COMM_PROCS_PROOF_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/procs/wire.h"

void weir__proof(const char *key, const void *data, size_t size,
                 unsigned char out[WEIR__WIRE_PROOF]);
/* Fills the random bytes and the proof of a HELLO whose other fields are set. */
void weir__proof_of_hello(const char *token, struct weir__wire_hello *hello);
bool weir__proves_hello(const char *token, const struct weir__wire_hello *hello);
/* The same for an answer; `hello` is the proof of the HELLO, `answer` a whole message that ends
 * with its proof. */
void weir__proof_of_answer(const char *token, const unsigned char *hello, void *answer,
                           size_t size);
bool weir__proves_answer(const char *token, const unsigned char *hello, const void *answer,
                         size_t size);

#endif
