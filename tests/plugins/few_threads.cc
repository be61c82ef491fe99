// For LD_PRELOAD: from its call FEW_THREADS on, counted from 0, pthread_create fails as at a limit
// of threads.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) {
  static std::atomic<long> calls{0};
  const char* const few = std::getenv("FEW_THREADS");
  if (few != nullptr && calls++ >= std::atol(few)) return EAGAIN;
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, body, argument);
}
