/* Order by tokens and by tagged events, for programs written that way. Both work the same
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

/* A token for everything issued on the current stream of `dev` so far. Release it as any
 * tensor. */
WEIR_API WEIR_MUST_USE weir_status weir_token_record(weir_device *dev, weir_tensor **token);

/* The current stream goes on after all of the tokens; any other tensor stands for the work that
 * makes it.
 * returns  WEIR_EINVAL for none of them, or for NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_token_wait(weir_tensor *const *tokens, int ntokens);

/* Events by tag. A tag is made once, recorded on the current stream and waited for by the
 * current stream; waiting for one that was never recorded does nothing.
 * returns  WEIR_EINVAL if a tag is made twice, or is not known. */
WEIR_API WEIR_MUST_USE weir_status weir_tagged_event_create(weir_device *dev, const char *tag);
WEIR_API WEIR_MUST_USE weir_status weir_tagged_event_record(weir_device *dev, const char *tag);
WEIR_API WEIR_MUST_USE weir_status weir_tagged_event_wait(weir_device *dev, const char *tag);
WEIR_API WEIR_MUST_USE weir_status weir_tagged_event_destroy(weir_device *dev, const char *tag);

/* Says that work on the stream of that tag uses the tensor. In a graph weir knows.
 * returns  WEIR_EINVAL for an empty tag. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_record_tagged_stream(weir_tensor *tensor,
                                                                    const char *tag);

#ifdef __cplusplus
}
#endif
#endif
