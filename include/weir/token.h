/* Tokens and tagged events: two ways to order work, as TorchAir has them. Both work the same
 * whether operators run at once or are captured.
 *
 * threads  any.
 */
#ifndef WEIR_TOKEN_H
#define WEIR_TOKEN_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A token that stands for everything queued on the current stream of `dev` so far. Release it like
 * any tensor. */
WEIR_API WEIR_MUST_USE weir_status weir_token_record(weir_device *dev, weir_tensor **token);

/* Orders everything queued later on the current stream after all of the tokens. A tensor that is
 * not a token stands for the work that computes it.
 * returns  WEIR_EINVAL if ntokens is 0 or a token is NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_token_wait(weir_tensor *const *tokens, int ntokens);

/* Events by tag. Record and wait act on the current stream. Waiting for an event that was never
 * recorded does nothing.
 * returns  WEIR_EINVAL from create if the tag exists, from the others if it does not. */
WEIR_API WEIR_MUST_USE weir_status weir_tagged_event_create(weir_device *dev, const char *tag);
WEIR_API WEIR_MUST_USE weir_status weir_tagged_event_record(weir_device *dev, const char *tag);
WEIR_API WEIR_MUST_USE weir_status weir_tagged_event_wait(weir_device *dev, const char *tag);
WEIR_API WEIR_MUST_USE weir_status weir_tagged_event_destroy(weir_device *dev, const char *tag);

/* Notes that work on the stream of that tag uses the tensor. Does nothing for a tensor of a graph:
 * weir knows its uses.
 * returns  WEIR_EINVAL for an empty tag. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_record_tagged_stream(weir_tensor *tensor,
                                                                    const char *tag);

#ifdef __cplusplus
}
#endif
#endif
