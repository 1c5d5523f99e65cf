/* The cache on disk, and the calls that a run makes to the libraries. */
#ifndef TESTS_CUDA_KEPT_H
#define TESTS_CUDA_KEPT_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake/control.h"

/* A cache of the test's own, given back by drop_cache. */
static inline void make_cache(char *path, size_t size)
{
    snprintf(path, size, "/tmp/weir-products-%ld", (long)getpid());
    setenv("WEIR_CACHE_DIR", path, 1);
}

/* The files of a kind: how many, and the first one's name. */
static inline int list_kept(const char *path, const char *kind, char *name, size_t size)
{
    DIR *d = opendir(path);
    struct dirent *entry;
    int n = 0;

    while (d && (entry = readdir(d)))
        if (strstr(entry->d_name, kind) && !n++ && name)
            snprintf(name, size, "%s/%s", path, entry->d_name);
    if (d)
        closedir(d);
    return n;
}

static inline void drop_cache(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *entry;
    char file[600];

    while (d && (entry = readdir(d)))
        if (entry->d_name[0] != '.') {
            snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            unlink(file);
        }
    if (d)
        closedir(d);
    rmdir(path);
}

/* Calls of a function since `watch`. */
static inline int count_calls(const struct fake_control *fake, const char *symbol)
{
    int n = 0;

    for (uint64_t i = 1; fake->watched(i); i++)
        n += !strcmp(fake->watched(i), symbol);
    return n;
}

#endif
