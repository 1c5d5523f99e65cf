/* For the run-time compiler, which knows size_t by itself. */
