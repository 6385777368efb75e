/* What the library was built from, and which of its variants this processor can run. */

const char *built_from(void) {
    return SOURCES;
}

const char *best_variant(void) {
#ifdef __x86_64__
#ifdef HAS_avx512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("fma"))
        return "avx512";
#endif
#ifdef HAS_avx2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "avx2";
#endif
#endif
    return "baseline";
}
