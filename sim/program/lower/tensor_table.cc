#include "sim/program/lower/tensor_table.h"

#include "base/result.h"

namespace foretrain {
namespace {

std::uint64_t Pack(const TensorName& name) {
  const auto field = [](int value) { return static_cast<std::uint64_t>(value); };
  return ((static_cast<std::uint64_t>(name.kind) << 13 | field(name.block)) << 18 |
          field(name.micro_batch))
             << 16 |
         field(name.index);
}

}  // namespace

int TensorTable::Find(const TensorName& name) const {
  const auto found = buffers_.find(Pack(name));
  return found == buffers_.end() ? -1 : found->second;
}

int TensorTable::At(const TensorName& name) const {
  const int buffer = Find(name);
  FT_CHECK(buffer >= 0);
  return buffer;
}

int TensorTable::Put(const TensorName& name, int buffer) {
  const bool is_new = buffers_.try_emplace(Pack(name), buffer).second;
  FT_CHECK(is_new);
  return buffer;
}

void TensorTable::Drop(const TensorName& name) {
  const std::size_t erased = buffers_.erase(Pack(name));
  FT_CHECK(erased == 1);
}

}  // namespace foretrain
