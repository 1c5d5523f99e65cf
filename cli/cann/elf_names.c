/* Reads names from shared objects without loading them. */
#include "cann/elf_names.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct object {
    const char *bytes;
    size_t size;
};

/* True if `n` bytes at the offset are within the file. */
static bool within(const struct object *o, uint64_t offset, uint64_t n)
{
    return offset <= o->size && n <= o->size - offset;
}

static const Elf64_Shdr *section(const struct object *o, const Elf64_Ehdr *h, unsigned i)
{
    uint64_t at = h->e_shoff + (uint64_t)i * sizeof(Elf64_Shdr);

    return i < h->e_shnum && within(o, at, sizeof(Elf64_Shdr)) ? (const void *)(o->bytes + at)
                                                               : NULL;
}

static void symbols(const struct object *o, const Elf64_Ehdr *h, const Elf64_Shdr *table,
                    bool defined, void (*visit)(const char *, bool, void *), void *user)
{
    const Elf64_Shdr *strings = section(o, h, table->sh_link);

    if (!strings || !within(o, strings->sh_offset, strings->sh_size) || !strings->sh_size ||
        o->bytes[strings->sh_offset + strings->sh_size - 1])
        return;
    for (uint64_t i = 0; i + sizeof(Elf64_Sym) <= table->sh_size; i += sizeof(Elf64_Sym)) {
        const Elf64_Sym *s = (const void *)(o->bytes + table->sh_offset + i);

        if ((s->st_shndx != SHN_UNDEF) == defined && s->st_name && s->st_name < strings->sh_size)
            visit(o->bytes + strings->sh_offset + s->st_name, false, user);
    }
}

/* Visits texts of letters, digits and underscores: they may be arguments of dlsym. */
static void texts(const char *at, const char *end, void (*visit)(const char *, bool, void *),
                  void *user)
{
    while (at < end) {
        const char *stop = at;

        while (stop < end && (isalnum((unsigned char)*stop) || *stop == '_'))
            stop++;
        if (stop < end && !*stop && stop - at > 5 && stop - at < 128)
            visit(at, true, user);
        while (stop < end && *stop)
            stop++;
        at = stop + 1;
    }
}

static bool walk(const struct object *o, bool defined, void (*visit)(const char *, bool, void *),
                 void *user)
{
    const Elf64_Ehdr *h = (const void *)o->bytes;
    const Elf64_Shdr *s, *names;

    if (!within(o, 0, sizeof *h) || memcmp(h->e_ident, ELFMAG, SELFMAG) ||
        h->e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    names = section(o, h, h->e_shstrndx);
    for (unsigned i = 0; (s = section(o, h, i)); i++) {
        const char *name;

        if (s->sh_type == SHT_NOBITS || !within(o, s->sh_offset, s->sh_size))
            continue;
        if (s->sh_type == SHT_DYNSYM)
            symbols(o, h, s, defined, visit, user);
        if (defined || !names || !within(o, names->sh_offset, names->sh_size) ||
            s->sh_name + sizeof ".rodata" > names->sh_size)
            continue;
        name = o->bytes + names->sh_offset + s->sh_name;
        if (!strncmp(name, ".rodata", 7))
            texts(o->bytes + s->sh_offset, o->bytes + s->sh_offset + s->sh_size, visit, user);
    }
    return true;
}

bool elf_names(const char *path, bool defined, void (*visit)(const char *, bool, void *),
               void *user)
{
    struct object o;
    struct stat st;
    void *map;
    bool ok;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    if (fstat(fd, &st) || st.st_size <= 0) {
        close(fd);
        return false;
    }
    o.size = (size_t)st.st_size;
    map = mmap(NULL, o.size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return false;
    o.bytes = map;
    ok = walk(&o, defined, visit, user);
    munmap(map, o.size);
    return ok;
}
