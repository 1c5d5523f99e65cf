/* Names in shared objects, without loading them. */
#ifndef WEIR_CLI_ELF_NAMES_H
#define WEIR_CLI_ELF_NAMES_H

#include <stdbool.h>

/* Calls `visit` with each dynamic symbol that the object leaves open (or, with `defined`, has), and
 * with each text of its read-only data that may be a name, as `text` says. false if the file cannot
 * be read or is no 64-bit ELF object. */
bool elf_names(const char *path, bool defined,
               void (*visit)(const char *name, bool text, void *user), void *user);

#endif
