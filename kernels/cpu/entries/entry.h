// Makes an entry of the device table from a kernel that computes in fp32 on valid arguments.
#pragma once

#include <type_traits>

#include "base/device_api.h"
#include "kernels/arguments/describe.h"
#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/wide_copies.h"

namespace foretrain {

template <auto entry>
struct EntryOf;
#define FT_ENTRY_OF(NAME, entry, Struct)                  \
  template <>                                             \
  struct EntryOf<&FtDeviceApi::entry> {                   \
    using Arguments = Struct;                             \
    static constexpr FtKernel kKernel = FT_KERNEL_##NAME; \
  };
FT_KERNEL_ENTRIES(FT_ENTRY_OF)
#undef FT_ENTRY_OF

// Calls a kernel of one of three forms: a member of VectorKernels, with or without scratch memory;
// a function of the arguments; or one that may also refuse them and use the queue.
template <auto kernel, class Arguments>
void Compute(Check& check, const Arguments& g) {
  FtQueue* const queue = check.queue();
  if constexpr (std::is_invocable_v<decltype(kernel), Check&, const Arguments&>) {
    kernel(check, g);
  } else if constexpr (std::is_invocable_v<decltype(kernel), const Arguments&>) {
    kernel(g);
  } else if constexpr (requires { (queue->kernels->*kernel)(g); }) {
    (queue->kernels->*kernel)(g);
  } else {
    (queue->kernels->*kernel)(g, queue->scratch.get());
  }
}

// Checks the arguments, then runs the kernel on fp32 copies of short tensors. Outputs are stored
// only on success.
template <auto entry, auto kernel>
FtStatus Run(FtQueue* queue, const typename EntryOf<entry>::Arguments* arguments) {
  auto g = *arguments;
  Check check(queue, EntryOf<entry>::kKernel);
  Describe(check, g);
  if (!check.ok()) return check.status();
  WideCopies copies(queue, EntryOf<entry>::kKernel);
  Describe(copies, g);
  if (!copies.ok()) return copies.status();
  copies.UseFp32();
  Compute<kernel>(check, g);
  if (check.ok()) copies.Store();
  return check.status();
}

template <auto entry, auto kernel>
void Set(FtDeviceApi& api) {
  api.*entry = &Run<entry, kernel>;
}

}  // namespace foretrain
