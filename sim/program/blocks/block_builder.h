// Writes a Block down op by op, and cuts a backward block into its input-gradient and
// weight-gradient halves. Leaves out which ops a block has: layer.cc, embedding.cc, head.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/program/blocks/packed_tensors.h"
#include "sim/program/op.h"

namespace foretrain {

inline constexpr std::int64_t kFloatBytes = 4;
// A saved tensor that exists only because the backward was cut in two has this plus its slot
// number.
inline constexpr int kFirstHeld = 1024;

constexpr Operand In(std::int16_t slot) { return {slot, Access::kRead}; }
constexpr Operand Out(std::int16_t slot) { return {slot, Access::kWrite}; }
constexpr Operand InOut(std::int16_t slot) { return {slot, Access::kReadWrite}; }

// Formats of a block's tensors and ops, where nothing else is said of one.
struct BlockFormats {
  NumberFormat activations = NumberFormat::kFp32;
  NumberFormat products = NumberFormat::kFp32;   // what GEMMs compute in, and read
  NumberFormat attention = NumberFormat::kFp32;  // what attention computes in
};

// Which operand of a linear's products a tensor is. Columns: of the product that makes the weight's
// gradient, whose depth are rows.
enum class OperandRole : std::uint8_t {
  kInput,
  kOutputGradient,
  kWeight,
  kInputColumns,
  kOutputGradientColumns,
};

// What a product reads: numbers or codes, and the scales of the codes, or kNoSlot.
struct ProductOperand {
  std::int16_t numbers = kNoSlot;
  std::int16_t scales = kNoSlot;
};

// How a tensor is cast for a product: what its op's name begins with, the numbers of a row, and who
// says how many of the rows there are, or kNoSlot.
struct CastRequest {
  std::string name;
  std::int64_t cols = 0;
  std::int16_t counts = kNoSlot;
};

class BlockBuilder {
 public:
  explicit BlockBuilder(std::string name, const BlockFormats& formats = {}) : formats_(formats) {
    block_.name = std::move(name);
  }

  // A tensor of `elements` numbers in the format of activations, ids, targets and loss in 4 bytes;
  // none (and kNoSlot) when elements == 0.
  std::int16_t Slot(std::string name, std::int64_t elements, Category category, SlotRole role,
                    int index = 0);
  // The same in a format of its own.
  std::int16_t SlotIn(NumberFormat format, std::string name, std::int64_t elements,
                      Category category, SlotRole role, int index = 0);
  // The same for a tensor of which the bytes are given.
  std::int16_t SlotOfBytes(std::string name, std::int64_t bytes, Category category, SlotRole role,
                           int index = 0);
  // A tensor as it is described.
  std::int16_t Add(TensorSlot slot);
  std::int16_t Temporary(std::string name, std::int64_t elements) {
    return Slot(std::move(name), elements, Category::kWorkspace, SlotRole::kTemporary);
  }
  std::int16_t TemporaryIn(NumberFormat format, std::string name, std::int64_t elements,
                           Category category = Category::kWorkspace) {
    return SlotIn(format, std::move(name), elements, category, SlotRole::kTemporary);
  }
  // Of a parameter in 4 bits.
  std::int16_t PackedSlot(std::string name, std::vector<PackedTensor> tensors, Category category,
                          SlotRole role, int index);
  NumberFormat FormatOf(std::int16_t slot) const {
    return block_.slots[static_cast<std::size_t>(slot)].format;
  }
  const BlockFormats& formats() const { return formats_; }
  // What GEMMs from here on compute in.
  void ComputeIn(NumberFormat products) { formats_.products = products; }
  // Part of the tensor of `of`, which may be a view: `elements` from `first` on, and `per_rank`
  // further for each tp coordinate.
  std::int16_t View(std::string name, std::int16_t of, std::int64_t first, std::int64_t elements,
                    std::int64_t per_rank = 0);

  // All ops are of this half.
  void AllIn(Pass half) { halves_.assign(halves_.size(), half); }
  // The ops added from here on belong to this half of a backward (kBackwardInput, kBackwardWeight).
  void Half(Pass half) { half_ = half; }

  // An op that reads and writes `operands` in the order op.h lists for its kind. The reference
  // holds until the next Add.
  Op& Add(OpKind kind, OpClass op_class, std::string name, std::initializer_list<Operand> operands);

  // The op that was added last.
  Op& Last() { return block_.ops.back(); }

  // The numbers of `from`, in rows of `cols`, in the format of `to`, which is as long; the op is
  // called `name`. counts: as of CastRequest.
  void Cast(const std::string& name, std::int16_t from, std::int16_t to, std::int64_t cols = 0,
            std::int16_t counts = kNoSlot);
  // The same with the largest number of all tensor-parallel ranks for a scale that is of a whole
  // tensor: of rows that they gather from each other.
  void CastTogether(const std::string& name, std::int16_t from, std::int16_t to, std::int64_t cols);
  // What a GEMM reads of a tensor: itself or, where its format is another one than products have, a
  // cast of it that lies under `category`, made once by an op called `name`.cast.
  std::int16_t ForProduct(const std::string& name, std::int16_t tensor,
                          Category category = Category::kWorkspace);
  ProductOperand ForProduct(const CastRequest& request, std::int16_t tensor, OperandRole role);
  // Codes and scales of a tensor that has both, or of a view of one.
  ProductOperand PartsOf(std::int16_t tensor);
  // The parts of the tensor that begin at these numbers are cast one by one, each with a scale of
  // its own where that is of a tensor.
  void CutAt(std::int16_t tensor, std::vector<std::int64_t> firsts);

  // The same of a weight of `elements` numbers, which may have 4 bits: each of its tensors is made
  // wide by an op called `name`.dequantize, of several with its number behind.
  ProductOperand WeightForProduct(const std::string& name, std::int16_t weight, std::int64_t out,
                                  std::int64_t in);

  // c (+)= op(a) op(b) + bias
  Op& Gemm(const std::string& name, const ProductOperand& a, const ProductOperand& b,
           std::int16_t bias, Operand c);

  // y[rows, out] (+)= x[rows, in] w[out, in]^T + bias
  void Linear(const std::string& name, std::int16_t x, std::int16_t weight, std::int16_t bias,
              std::int16_t y, std::int64_t rows, std::int64_t out, std::int64_t in,
              bool adds = false);
  // dx[rows, in] (+)= dy[rows, out] w[out, in]
  void LinearInputGradient(const std::string& name, std::int16_t dy, std::int16_t weight,
                           std::int16_t dx, std::int64_t rows, std::int64_t out, std::int64_t in,
                           bool adds = false);
  // dw[out, in] (+)= dy[rows, out]^T x[rows, in]; dbias[out] (+)= column sums of dy; either if
  // there is one
  void LinearWeightGradient(const std::string& name, std::int16_t dy, std::int16_t x,
                            std::int16_t weight_grad, std::int16_t bias_grad, std::int64_t rows,
                            std::int64_t out, std::int64_t in, bool accumulate);
  // dbias[out] (+)= column sums of dy[rows, out], if there is one
  void BiasGradient(const std::string& name, std::int16_t dy, std::int16_t bias_grad,
                    std::int64_t rows, std::int64_t out, bool accumulate);
  // Collectives over the tensor-parallel group on its queue; `elements`: of the whole. The
  // all-reduce is in place.
  Op& TpAllReduce(const std::string& name, std::int16_t tensor, std::int64_t elements);
  void TpReduceScatter(const std::string& name, std::int16_t whole, std::int16_t shard,
                       std::int64_t elements);
  void TpAllGather(const std::string& name, std::int16_t shard, std::int16_t whole,
                   std::int64_t elements);
  // All ranks' parts of `own`, `elements` in all, as a temporary called `name`, in codes where they
  // are.
  std::int16_t TpGathered(const std::string& name, std::int16_t own, std::int64_t elements);

  // Adds the tensors and ops of another block that is being written down, in the halves that they
  // belong to there. `place` says which tensor of this block one of the part's is; kNoSlot: one of
  // its own, as `place` leaves it. Names get the prefix.
  void Splice(const BlockBuilder& part, const std::string& prefix,
              const std::function<std::int16_t(TensorSlot&)>& place);

  // The block: all of it for kBackward and for passes that have no halves, else the ops of `half`.
  // A temporary that one half writes and the other reads becomes a saved tensor of both.
  Block Take(Pass half = Pass::kBackward) const;

 private:
  // One of the tensors of a parameter in 4 bits.
  std::int16_t PackedView(std::string name, std::int16_t of, const PackedTensor& tensor);
  // A cast that was made before of the tensor, or kNoSlot.
  std::int16_t KnownCast(std::int16_t tensor, NumberFormat format) const;
  // What the cast of an operand is, with its scales, and its codes.
  NumberFormat CastFormat(OperandRole role) const;
  // Whether the tensor is codes with scales that lie elsewhere.
  bool HasParts(std::int16_t tensor) const {
    return parts_.contains(tensor) || HasScalesApart(FormatOf(tensor));
  }
  void MakeParts(std::int16_t tensor, NumberFormat codes);
  std::int16_t CastSlot(const CastRequest& request, std::int16_t tensor, OperandRole role);
  // Bytes of a tensor, as one of `format`; and part of one with parts.
  std::int16_t BytesOf(std::string name, std::int16_t of, NumberFormat format, std::int64_t offset,
                       std::int64_t bytes);
  std::int16_t ViewOfCodes(std::string name, std::int16_t of, std::int64_t first,
                           std::int64_t elements);
  Op& TpCollective(OpKind kind, const std::string& name, Operand in, Operand out,
                   std::int64_t elements);

  Block block_;
  BlockFormats formats_;
  // For products: by slot, format, and by half, because an input half reads nothing of the weight
  // half.
  std::map<std::tuple<std::int16_t, NumberFormat, bool>, std::int16_t> casts_;
  // Of tensors with scales apart, and of views of their codes.
  struct Parts {
    ProductOperand at = {};
    NumberFormat format = NumberFormat::kFp8Tensor;
    std::vector<std::int64_t> firsts = {};  // of CutAt, of which each has a scale
  };
  std::map<std::int16_t, Parts> parts_;
  std::map<std::int16_t, std::int64_t> elements_;             // of tensors with scales apart
  std::map<std::int16_t, std::vector<PackedTensor>> packed_;  // by slot, of parameters in 4 bits
  std::vector<Pass> halves_;                                  // one per op
  Pass half_ = Pass::kNone;
};

}  // namespace foretrain
