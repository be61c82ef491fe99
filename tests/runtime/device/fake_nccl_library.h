// The fake libnccl.so.2, loaded, and its controls.
#pragma once

#include <string>

#include "runtime/nccl/nccl_library.h"
#include "tests/plugins/fake_nccl.h"

namespace foretrain {

std::string FakeNcclFile();
const NcclApi& FakeNcclApi();
FakeNccl& FakeNcclControl();

}  // namespace foretrain
