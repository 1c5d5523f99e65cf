/* Whether the race checker is on, and what it does with a race: set by a call or by WEIR_CHECK. */
#include "check/race/watch.h"

#include <stdlib.h>
#include <string.h>

_Atomic int weir__race_mode;

weir_status weir_race_set_mode(weir_race_mode mode)
{
    if ((unsigned)mode > WEIR_RACE_AUTOSYNC)
        return weir__fail(WEIR_EINVAL, "%d is not a mode of the race checker", (int)mode);
    weir__race_switch(mode);
    return WEIR_OK;
}

weir_race_mode weir_race_get_mode(void)
{
    return (weir_race_mode)atomic_load(&weir__race_mode);
}

weir_status weir__race_from_environment(void)
{
    static const struct {
        const char *text;
        weir_race_mode mode;
    } words[] = {
        {"race", WEIR_RACE_REPORT},      {"race=report", WEIR_RACE_REPORT},
        {"race=error", WEIR_RACE_ERROR}, {"race=autosync", WEIR_RACE_AUTOSYNC},
        {"off", WEIR_RACE_OFF},          {"", WEIR_RACE_OFF},
    };
    static atomic_bool read;
    const char *text = getenv("WEIR_CHECK");

    if (!text || atomic_exchange(&read, true))
        return WEIR_OK;
    for (size_t i = 0; i < weir__countof(words); i++)
        if (!strcmp(text, words[i].text))
            return words[i].mode ? weir_race_set_mode(words[i].mode) : WEIR_OK;
    atomic_store(&read, false);
    return weir__fail(WEIR_EINVAL,
                      "WEIR_CHECK is '%s'; it may be race, race=error, race=autosync or off", text);
}
