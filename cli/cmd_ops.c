/* `weir ops`: prints the operator table. */
#include "commands.h"
#include "json.h"
#include "term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void print_json(const weir_op_info *ops, size_t n)
{
    struct json j = {.out = stdout};

    json_object(&j, NULL);
    json_array(&j, "ops");
    for (size_t i = 0; i < n; i++) {
        json_object(&j, NULL);
        json_string(&j, "name", ops[i].name);
        json_string(&j, "engine", weir_engine_name(ops[i].engine));
        json_bool(&j, "gang", ops[i].gang);
        json_bool(&j, "data_dependent", ops[i].data_dependent);
        json_bool(&j, "obeys_limit", ops[i].obeys_limit);
        json_string(&j, "summary", ops[i].summary);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
}

/* Says whether core limits apply to the operator. For a Kernel node its class decides. */
static const char *limit_word(const weir_op_info *op)
{
    if (!strcmp(op->name, "Kernel"))
        return "by class";
    return op->obeys_limit ? "obeys" : "ignores";
}

static void print_table(const weir_op_info *ops, size_t n)
{
    static const struct term_column columns[] = {
        {"name", false},  {"engine", false},     {"gang", false},
        {"shape", false}, {"core limit", false}, {"what it does", false},
    };
    struct term_table t = {.columns = columns, .ncolumns = sizeof columns / sizeof *columns};

    for (size_t i = 0; i < n; i++)
        term_table_add(&t, (const char *const[]){ops[i].name, weir_engine_name(ops[i].engine),
                                                 ops[i].gang ? "yes" : "",
                                                 ops[i].data_dependent ? "by values" : "",
                                                 limit_word(&ops[i]), ops[i].summary});
    term_table_print(&t, 0);
    printf(
        "\n%zu operators. A gang runs only when all its blocks have a core at once; 'by values' "
        "means that\nthe output's shape is known only after the run. In a plan compiled with "
        "static kernels every\ncore limit is frozen. A Kernel node obeys if its class is ascendc "
        "(cube, vector, mix), or tbe,\nhccl or mc2 (vector); atb, aicpu and static ones ignore "
        "limits.\n",
        n);
}

static const char *op_name_at(size_t i, const void *names)
{
    return ((const weir_op_info *)names)[i].name;
}

/* Returns the rows of the named operators in a new array; NULL after printing an error. */
static weir_op_info *select_ops(const weir_op_info *ops, char **words, int nwords)
{
    weir_op_info *picked = calloc((size_t)nwords, sizeof *picked);

    for (int w = 0; picked && w < nwords; w++) {
        const weir_op_info *op = ops;
        const char *meant;

        while (op->name && strcasecmp(op->name, words[w]) != 0)
            op++;
        if (op->name) {
            picked[w] = *op;
            continue;
        }
        meant = cli_closest(words[w], op_name_at, ops);
        fprintf(stderr, "weir ops: there is no operator '%s'%s%s%s\n", words[w],
                meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
        free(picked);
        return NULL;
    }
    return picked;
}

int weir_cmd_ops(int argc, char **argv)
{
    bool json = false;
    const struct cli_option options[] = {
        {"--json", NULL, "a JSON document instead of a table", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "ops",
        .synopsis = "[--json] [NAME...]",
        .about = "Lists the operators: the engine each runs on, whether it is a gang, whether its\n"
                 "output's shape depends on values, and whether core limits apply to it.",
        .options = options,
        .examples = "  weir ops\n"
                    "  weir ops matmul nonzero\n"
                    "  weir ops --json | jq -r '.ops[] | select(.gang) | .name'\n",
        .max_words = argc,
        .words = "OPERATOR",
    };
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);
    size_t n = weir_op_list(NULL, 0, 0);
    weir_op_info *ops;

    if (status >= 0)
        return status;
    if (!(ops = calloc(n + 1, sizeof *ops))) { /* an empty row ends the array */
        fputs("weir ops: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    weir_op_list(ops, sizeof *ops, n);
    if (nwords) {
        weir_op_info *picked = select_ops(ops, argv + 1, nwords);

        free(ops);
        if (!picked)
            return EXIT_USAGE;
        ops = picked;
        n = (size_t)nwords;
    }
    (json ? print_json : print_table)(ops, n);
    free(ops);
    return EXIT_FINE;
}
