/* Between the files of `weir estimate`. */
#ifndef WEIR_CLI_ESTIMATE_H
#define WEIR_CLI_ESTIMATE_H

#include "graph/estimate/estimate.h"

struct estimate_job {
    const char *path;
    bool json;
    struct weir__llm llm;
    struct weir__deploy d;
    double ttft, tpot, max_batch; /* of a search, ms; 0 for no limit */
    weir_device *dev;
};

void estimate_print(const struct estimate_job *job, const struct weir__estimate *e);
void estimate_print_json(const struct estimate_job *job, const struct weir__estimate *e);

/* Searches and prints. returns  an exit status. */
int estimate_search(struct estimate_job *job);

#endif
