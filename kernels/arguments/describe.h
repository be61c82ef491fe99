// Description of each kernel entry's arguments: sizes with their bounds, formats and tensors. Each
// entry is described once, in the file of its family; readers check or copy by it.
#pragma once

#include "base/device_api.h"
#include "kernels/arguments/reader.h"

namespace foretrain {

// Hands the arguments to the reader, which may replace pointers and dtypes. Leaves out data in
// device memory, such as ids, and limits of one device. Where two entries share a struct, the
// reader's kernel() tells them apart.
#define FT_DESCRIBE(NAME, entry, Arguments) void Describe(ArgumentReader& reader, Arguments& g);
FT_KERNEL_ENTRIES(FT_DESCRIBE)
#undef FT_DESCRIBE

// Struct and number of the entry behind a member of FtDeviceApi.
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

}  // namespace foretrain
