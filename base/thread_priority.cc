#include "base/thread_priority.h"

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace foretrain {

void GiveWay() {
#ifdef __linux__
  // Linux gives each thread a nice value of its own (setpriority(2), "NPTL"); 19 is the lowest. If
  // the call is refused, the thread keeps its priority, which is safe.
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19));
#endif
}

}  // namespace foretrain
