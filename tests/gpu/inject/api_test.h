/* What play.c and its libsanitizer-public.so know of each other. */
#ifndef MT_TEST_INJECT_API_TEST_H
#define MT_TEST_INJECT_API_TEST_H
#include <sanitizer.h>

#define API_PC 0x7f1234560000ull
#define API_KERNEL "_ZN3app5scaleEPfi"

extern Sanitizer_CallbackFunc api_callback; /* NULL: nobody has subscribed */
extern _Thread_local const void *api_data;  /* what the thread's last launch was told */
extern unsigned api_patched, api_enabled;   /* modules; callbacks and domains */
extern unsigned api_asked;                  /* a bit for each domain of which callbacks were asked for */
extern SanitizerResult api_patch_result;
/* The GPU begins, or ends, to use its memory. */
void api_touch(int on);
#endif
