/* `weir bench`. */
#ifndef WEIR_CLI_CMD_BENCH_H
#define WEIR_CLI_CMD_BENCH_H

/* argv[0] is the command's own name. returns an exit status. */
int weir_cmd_bench(int argc, char **argv);

#endif
