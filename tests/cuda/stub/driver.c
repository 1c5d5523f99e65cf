/* A library with the name of NVIDIA's driver and nothing in it. */
extern const int stub_driver_has_nothing;
const int stub_driver_has_nothing = 1;
