#include "sim/program/lower/rank/step_description.h"

namespace foretrain {
namespace {

// Tensors that do not stay need their shape, so that memory can be computed without buffers.
TensorUse UseOf(const TensorName& name, Life life, const TensorShape& shape) {
  TensorUse use;
  use.name = name;
  use.life = life;
  use.bytes = use.whole = shape.bytes;
  use.category = shape.category;
  use.space = shape.space;
  use.format = shape.format;
  return use;
}

}  // namespace

TensorUse Uses(const TensorName& name) {
  TensorUse use;
  use.name = name;
  return use;
}

TensorUse Uses(TensorKind kind) { return Uses(TensorName{kind}); }

TensorUse Makes(const TensorName& name, const TensorShape& shape) {
  return UseOf(name, Life::kMade, shape);
}

TensorUse Frees(const TensorName& name, const TensorShape& shape) {
  return UseOf(name, Life::kFreed, shape);
}

TensorUse Borrows(const TensorShape& shape) { return UseOf({}, Life::kBorrowed, shape); }

}  // namespace foretrain
