#include "complete.h"

#include "sim/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool cli_completing;

void cli_complete_offer(const char *typed, const char *candidate, const char *about)
{
    if (!strncasecmp(candidate, typed, strlen(typed)))
        printf("%s\t%s\n", candidate, about ? about : "");
}

/* ---- device specs ---- */

struct word {
    const char *text, *about;
};

static const struct word specs[] = {
    {"cpu", "host threads"},
    {"cpu:cores=", "host threads, so many cores"},
    {"cpu:cube=24,vector=48", "host threads that share an NPU's cores"},
    {"cuda:0", "the first NVIDIA GPU"},
    {"npu:a2", "modelled Ascend Atlas A2"},
    {"npu:a3", "modelled Ascend Atlas A3"},
    {NULL, NULL},
};

static const struct word npu_settings[] = {
    {"policy=hold", "gangs keep the cores they got"},
    {"policy=batch", "gangs get all cores at once"},
    {"compute=off", "times without values"},
    {"overhead=off", "launches and events cost nothing"},
    {"seed=", "the order of what is equal"},
    {NULL, NULL},
};

static const struct word cpu_settings[] = {
    {"cores=", "for cube and vector alike"},
    {"cube=", "cube cores"},
    {"vector=", "vector cores"},
    {"threads=", "host threads"},
    {NULL, NULL},
};

/* Offers the words. `before` precedes both each candidate and the typed text. */
static void offer_all(const char *typed, const char *before, size_t length,
                      const struct word *words)
{
    char text[256];

    for (; words->text; words++)
        if (snprintf(text, sizeof text, "%.*s%s", (int)length, before, words->text) <
            (int)sizeof text)
            cli_complete_offer(typed, text, words->about);
}

static void offer_specs(const char *typed)
{
    const char *comma = strrchr(typed, ','), *name;
    char text[64];

    if (comma) {
        offer_all(typed, typed, (size_t)(comma + 1 - typed),
                  !strncmp(typed, "npu", 3) ? npu_settings : cpu_settings);
        return;
    }
    offer_all(typed, "", 0, specs);
    for (size_t i = 0; (name = weir__profile_at(i)); i++) {
        snprintf(text, sizeof text, "npu:%s", name);
        cli_complete_offer(typed, text, "modelled Ascend NPU");
    }
}

/* ---- options and their values ---- */

static void offer_choices(const char *typed, const char *choices)
{
    char text[64];

    for (; *choices; choices += *choices == '|') {
        size_t length = strcspn(choices, "|");

        snprintf(text, sizeof text, "%.*s", (int)length, choices);
        cli_complete_offer(typed, text, NULL);
        choices += length;
    }
}

static void offer_operators(const char *typed)
{
    size_t n = weir_op_list(NULL, 0, 0);
    weir_op_info *ops = calloc(n + 1, sizeof *ops);

    if (!ops)
        return;
    weir_op_list(ops, sizeof *ops, n);
    for (size_t i = 0; i < n; i++)
        cli_complete_offer(typed, ops[i].name, NULL);
    free(ops);
}

/* Offers values according to the option's value_name. */
static void offer_values(const char *typed, const char *kind)
{
    if (!strcmp(kind, "SPEC"))
        offer_specs(typed);
    else if (strchr(kind, '|'))
        offer_choices(typed, kind);
    else if (!strcmp(kind, "DIR"))
        puts(":dirs");
    else if (!strcmp(kind, "FILE") || (!strcmp(kind, "R=FILE") && strchr(typed, '=')))
        puts(":files");
    else if (!strcmp(kind, "R=FILE"))
        cli_complete_offer(typed, "0=", "the graph of rank 0");
    else if (!strcmp(kind, "OPERATOR"))
        offer_operators(typed);
}

static void offer_options(const char *typed, const struct cli_option *options)
{
    for (const struct cli_option *o = options; o->name; o++)
        cli_complete_offer(typed, o->name, o->help);
    cli_complete_offer(typed, "--help", "what it does, with examples");
}

int cli_complete(const struct cli_usage *u, int argc, char **argv)
{
    const char *typed = argc > 1 ? argv[argc - 1] : "", *before = argc > 2 ? argv[argc - 2] : "";
    bool only_words = false;

    for (int i = 1; i < argc - 1; i++)
        only_words |= !strcmp(argv[i], "--");
    for (const struct cli_option *o = u->options; o->name && !only_words; o++) {
        size_t length = strlen(o->name);

        if (!o->value_name)
            continue;
        if (!strcmp(before, o->name)) {
            offer_values(typed, o->value_name);
            return EXIT_FINE;
        }
        if (!strncmp(typed, o->name, length) && typed[length] == '=') {
            offer_values(typed + length + 1, o->value_name); /* shells append it to the "=" */
            return EXIT_FINE;
        }
    }
    if (*typed == '-' && !only_words)
        offer_options(typed, u->options);
    else if (u->words)
        offer_values(typed, u->words);
    return EXIT_FINE;
}
