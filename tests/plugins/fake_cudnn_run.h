// Runs a graph of cuDNN operations on host memory in fp64, each result rounded to its tensor's
// type. Part of the tests' cuDNN, fake_cudnn.cc, which includes it once.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/numeric/number_formats.h"

namespace foretrain::fake_cudnn {

using Sizes = std::array<std::int64_t, 4>;

// Records the first violation of the rules; returns the status of a bad parameter.
int Wrong(const std::string& what);

enum Type {
  kPointwise = 0,
  kEngineConfig = 3,
  kHeuristics = 4,
  kPlan = 5,
  kPointwiseOp = 13,
  kGraph = 15,
  kPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOp = 19,
  kReduction = 21,
  kReductionOp = 22,
  kReshapeOp = 31
};
enum Data { kFloat = 0, kHalf = 2, kInt32 = 4, kBf16 = 9, kBoolean = 11 };

struct Object {
  int type;
  bool finalized = false;
  std::map<int, std::vector<std::uint8_t>> attributes;
  std::map<int, int> elements;  // type of each attribute's elements

  template <class T>
  std::vector<T> All(int name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.size() / sizeof(T));
    std::memcpy(values.data(), found->second.data(), values.size() * sizeof(T));
    return values;
  }
  template <class T>
  T One(int name, T otherwise = {}) const {
    const auto found = attributes.find(name);
    if (found != attributes.end()) std::memcpy(&otherwise, found->second.data(), sizeof otherwise);
    return otherwise;
  }
  const Object* Of(int name) const { return One<const Object*>(name); }
};

// ---- tensors

struct Shape {
  Sizes sizes, strides;
};
Shape ShapeOf(const Object& tensor) {
  Shape shape{};
  const auto sizes = tensor.All<std::int64_t>(902), strides = tensor.All<std::int64_t>(903);
  std::copy_n(sizes.begin(), 4, shape.sizes.begin());
  std::copy_n(strides.begin(), 4, shape.strides.begin());
  return shape;
}
std::int64_t Count(const Sizes& s) { return s[0] * s[1] * s[2] * s[3]; }
std::int64_t Offset(const Sizes& strides, const Sizes& at) {
  return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3];
}
template <class Use>
void ForEach(const Sizes& sizes, const Use& use) {
  Sizes at{};
  std::int64_t i = 0;
  for (at[0] = 0; at[0] < sizes[0]; ++at[0]) {
    for (at[1] = 0; at[1] < sizes[1]; ++at[1]) {
      for (at[2] = 0; at[2] < sizes[2]; ++at[2]) {
        for (at[3] = 0; at[3] < sizes[3]; ++at[3]) use(at, i++);
      }
    }
  }
}

double Rounded(double x, int data) {
  const auto narrow = static_cast<float>(x);
  if (data == kBf16) return foretrain::FloatOfBf16(foretrain::Bf16OfFloat(narrow));
  if (data == kHalf) return foretrain::FloatOfFp16(foretrain::Fp16OfFloat(narrow));
  return narrow;
}
double Read(const void* at, int data, std::int64_t i) {
  if (data == kBf16) return foretrain::FloatOfBf16(static_cast<const std::uint16_t*>(at)[i]);
  if (data == kHalf) return foretrain::FloatOfFp16(static_cast<const std::uint16_t*>(at)[i]);
  return static_cast<const float*>(at)[i];
}
void Write(void* at, int data, std::int64_t i, double x) {
  const auto narrow = static_cast<float>(x);
  if (data == kBf16) {
    static_cast<std::uint16_t*>(at)[i] = foretrain::Bf16OfFloat(narrow);
  } else if (data == kHalf) {
    static_cast<std::uint16_t*>(at)[i] = foretrain::Fp16OfFloat(narrow);
  } else {
    static_cast<float*>(at)[i] = narrow;
  }
}

// ---- a run

class Run {
 public:
  explicit Run(std::map<std::int64_t, void*> bound) : bound_(std::move(bound)) {}

  bool Do(const Object& op) {
    switch (op.type) {
      case kPointwiseOp:
        return Pointwise(op);
      case kMatmulOp:
        return Product(op);
      case kReductionOp:
        return Reduce(op);
      default:
        return View(op);
    }
  }

 private:
  struct Value {
    Shape shape;
    std::vector<double> at;  // in the order of sizes
    // Sizes of 1 are broadcast to the size of the other tensor.
    double Spread(const Sizes& place) const {
      std::int64_t i = 0;
      for (std::size_t d = 0; d < 4; ++d) {
        i = i * shape.sizes[d] + (shape.sizes[d] == 1 ? 0 : place[d]);
      }
      return at[static_cast<std::size_t>(i)];
    }
  };

  const Value& Of(const Object& tensor) {
    const auto found = values_.find(&tensor);
    if (found != values_.end()) return found->second;
    Value value{ShapeOf(tensor), {}};
    const void* const memory = bound_[tensor.One<std::int64_t>(906)];
    ForEach(value.shape.sizes, [&](const Sizes& at, std::int64_t) {
      value.at.push_back(Read(memory, tensor.One<int>(901), Offset(value.shape.strides, at)));
    });
    return values_[&tensor] = std::move(value);
  }

  // Rounds the values, and writes those that lie in memory.
  bool Put(const Object& tensor, std::vector<double> x) {
    const Shape shape = ShapeOf(tensor);
    if (static_cast<std::int64_t>(x.size()) != Count(shape.sizes)) {
      Wrong("a result of other sizes than its tensor's");
      return false;
    }
    const int data = tensor.One<int>(901);
    for (double& number : x) number = Rounded(number, data);
    if (!tensor.One<bool>(907)) {
      void* const memory = bound_[tensor.One<std::int64_t>(906)];
      ForEach(shape.sizes, [&](const Sizes& at, std::int64_t i) {
        Write(memory, data, Offset(shape.strides, at), x[static_cast<std::size_t>(i)]);
      });
    }
    values_[&tensor] = {shape, std::move(x)};
    return true;
  }

  static double Map(int mode, double x, double b, double t) {
    switch (mode) {
      case 0:
        return x + b;
      case 1:
        return x * b;
      case 6:
        return x / b;
      case 9:
        return x - b;
      case 13:
        return std::exp(x);
      case 15:
        return std::log(x);
      case 21:
        return x;
      case 303:
        return x >= b ? 1.0 : 0.0;
      case 601:
        return t != 0.0 ? x : b;
      default:
        Wrong("pointwise mode " + std::to_string(mode));
        return 0.0;
    }
  }

  bool Pointwise(const Object& op) {
    const int mode = op.Of(750)->One<int>(0);
    const Value& x = Of(*op.Of(751));
    const Value* const b = op.Of(752) != nullptr ? &Of(*op.Of(752)) : nullptr;
    const Value* const t = op.Of(758) != nullptr ? &Of(*op.Of(758)) : nullptr;
    const bool takes_b = mode != 13 && mode != 15 && mode != 21 && mode != 501;
    if (takes_b != (b != nullptr) || (mode == 601) != (t != nullptr)) {
      Wrong("pointwise mode " + std::to_string(mode) + " with other operands than its own");
      return false;
    }
    const auto axis = static_cast<std::size_t>(op.Of(750)->One<std::int64_t>(9, -1));
    std::vector<double> y;
    ForEach(ShapeOf(*op.Of(753)).sizes, [&](const Sizes& at, std::int64_t) {
      y.push_back(mode == 501 ? static_cast<double>(at.at(axis))
                              : Map(mode, x.Spread(at), b != nullptr ? b->Spread(at) : 0.0,
                                    t != nullptr ? t->Spread(at) : 0.0));
    });
    return Put(*op.Of(753), std::move(y));
  }

  bool Product(const Object& op) {
    const Value &a = Of(*op.Of(1520)), &b = Of(*op.Of(1521));
    const Sizes &m = a.shape.sizes, &n = b.shape.sizes;
    if (m[3] != n[2] || m[0] != n[0] || m[1] % n[1] != 0) {
      Wrong("a product of sizes that do not fit");
      return false;
    }
    std::vector<double> c;
    ForEach({m[0], m[1], m[2], n[3]}, [&](const Sizes& at, std::int64_t) {
      const std::int64_t shared = at[1] / (m[1] / n[1]);
      double sum = 0.0;
      for (std::int64_t k = 0; k < m[3]; ++k) {
        const auto i = static_cast<std::size_t>(((at[0] * m[1] + at[1]) * m[2] + at[2]) * m[3] + k);
        const auto j =
            static_cast<std::size_t>(((at[0] * n[1] + shared) * n[2] + k) * n[3] + at[3]);
        sum += a.at[i] * b.at[j];
      }
      c.push_back(sum);
    });
    return Put(*op.Of(1522), std::move(c));
  }

  bool Reduce(const Object& op) {
    const Value& x = Of(*op.Of(1610));
    const Sizes sizes = ShapeOf(*op.Of(1611)).sizes;
    const bool adds = op.Of(1612)->One<int>(1600) == 0;
    std::vector<double> y(static_cast<std::size_t>(Count(sizes)), adds ? 0.0 : -INFINITY);
    ForEach(x.shape.sizes, [&](const Sizes& at, std::int64_t i) {
      std::int64_t to = 0;
      for (std::size_t d = 0; d < 4; ++d) {
        to = to * sizes[d] + at[d] / (x.shape.sizes[d] / sizes[d]);
      }
      double& sum = y[static_cast<std::size_t>(to)];
      const double number = x.at[static_cast<std::size_t>(i)];
      sum = adds ? sum + number : std::max(sum, number);
    });
    return Put(*op.Of(1611), std::move(y));
  }

  // The same memory with other strides.
  bool View(const Object& op) {
    const Value& x = Of(*op.Of(2200));
    const Shape shape = ShapeOf(*op.Of(2201));
    std::vector<double> memory;
    std::vector<bool> has;
    ForEach(x.shape.sizes, [&](const Sizes& at, std::int64_t i) {
      const auto place = static_cast<std::size_t>(Offset(x.shape.strides, at));
      if (place >= memory.size()) memory.resize(place + 1), has.resize(place + 1);
      memory[place] = x.at[static_cast<std::size_t>(i)], has[place] = true;
    });
    std::vector<double> y;
    bool is_there = true;
    ForEach(shape.sizes, [&](const Sizes& at, std::int64_t) {
      const auto place = static_cast<std::size_t>(Offset(shape.strides, at));
      is_there = is_there && place < has.size() && has[place];
      y.push_back(is_there ? memory[place] : 0.0);
    });
    if (!is_there) Wrong("a view of memory that its tensor does not have");
    return is_there && Put(*op.Of(2201), std::move(y));
  }

  std::map<std::int64_t, void*> bound_;
  std::map<const Object*, Value> values_;
};

}  // namespace foretrain::fake_cudnn
