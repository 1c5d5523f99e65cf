/* Reads names from shared objects without loading them. */
#ifndef WEIR_CLI_ELF_NAMES_H
#define WEIR_CLI_ELF_NAMES_H

#include <stdbool.h>

/* Calls `visit` with each undefined dynamic symbol of the object (with `defined`: each defined
 * one), and with each text of its read-only data that may be a name; `text` tells the two apart.
 * Returns false if the file cannot be read or is no 64-bit ELF object. */
bool elf_names(const char *path, bool defined,
               void (*visit)(const char *name, bool text, void *user), void *user);

#endif
