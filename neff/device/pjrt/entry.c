/* What the device needs in native code. See entry.py. */

#include <stdint.h>

#define PUBLIC __attribute__((visibility("default")))
#define PLACES (UINT64_C(1) << 20)

PUBLIC const void *nki_hlo_pjrt_api;
PUBLIC uint64_t nki_hlo_released_count;
PUBLIC uint64_t nki_hlo_released[PLACES];

/* What torch_xla looks for in the library; Python has written the address of its table before. */
PUBLIC const void *GetPjrtApi(void) { return nki_hlo_pjrt_api; }

/* A handler of XLA's typed FFI that is written in Python. Python kills any thread that calls it
   while it ends, and XLA would wait for that thread for ever; so nothing is called then. */
PUBLIC void *(*nki_hlo_handler)(void *frame);
PUBLIC int (*nki_hlo_python_ends)(void);

PUBLIC void *nki_hlo_handle(void *frame) {
    return nki_hlo_python_ends() ? 0 : nki_hlo_handler(frame);
}

/* Every *_Destroy slot: the handle is the word after the structure's size and extension.

   Any thread may call this at any time, also one that holds locks of the framework, so it takes no
   lock: the count gives each call a place of its own. Python reads the ring later. It may see the
   count before the handle is in its place; zero stands for "not written yet", which is why handles
   are stored plus one and Python writes zero back. The store is a release, so a handle that is seen
   is whole. */
PUBLIC const void *nki_hlo_release(const uint64_t *arguments) {
    uint64_t place = __atomic_fetch_add(&nki_hlo_released_count, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&nki_hlo_released[place % PLACES], arguments[2] + 1, __ATOMIC_RELEASE);
    return 0;
}

/* The profiler extension of PJRT. torch_xla warns at every start about a device without one. A
   session of ours succeeds and records nothing: the device's times are estimates, which come from
   nki-hlo profile. Layouts: xla/backends/profiler/plugin/profiler_c_api.h and
   xla/pjrt/c/pjrt_c_api_profiler_extension.h. */
struct created { uint64_t size; const char *options; uint64_t options_size; void *profiler; };
struct collected { uint64_t size; void *profiler; uint8_t *buffer; uint64_t buffer_size; };

static const char session;

static void no_error(void *arguments) { (void)arguments; }
static const void *done(void *arguments) { (void)arguments; return 0; }

static const void *create(struct created *arguments) {
    arguments->profiler = (void *)&session;
    return 0;
}

static const void *collect(struct collected *arguments) {
    arguments->buffer_size = 0;
    return 0;
}

static const struct {
    uint64_t size;
    void *private;
    const void *error_destroy, *error_message, *error_code;
    const void *create, *destroy, *start, *stop, *collect;
} profiler = {
    sizeof profiler, 0, no_error, no_error, done, create, done, done, done, collect,
};

PUBLIC const struct {
    uint64_t size;
    uint64_t type;
    void *next;
    const void *api;
    int64_t context;
} nki_hlo_profiler = {sizeof nki_hlo_profiler, 1, 0, &profiler, 0};
