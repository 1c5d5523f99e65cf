/* An outside program: knows weir only as installed. */
#include <weir/weir.h>

#include <stdio.h>

int main(void)
{
    printf("weir %s: %s\n", weir_version(), weir_status_text(WEIR_OK));
    return weir_status_text(WEIR_OK)[0] == '\0';
}
