/* A library that others name and take nothing from. */
extern const char weir_cann_empty;
const char weir_cann_empty = 0;
