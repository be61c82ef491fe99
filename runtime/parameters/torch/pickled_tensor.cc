#include "runtime/parameters/torch/pickled_tensor.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/pickle/pickle.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/parameters/safetensors.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxDescription = kMiB;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;
constexpr std::size_t kMaxDimensions = 8;

// A dtype of PyTorch, the name of its storage in pickles, and safetensors' name.
struct DtypeRow {
  std::string_view torch, storage, safetensors;
};
constexpr DtypeRow kDtypes[] = {{"torch.float32", "torch.FloatStorage", "F32"},
                                {"torch.bfloat16", "torch.BFloat16Storage", "BF16"},
                                {"torch.float16", "torch.HalfStorage", "F16"},
                                {"torch.float64", "torch.DoubleStorage", "F64"},
                                {"torch.int64", "torch.LongStorage", "I64"},
                                {"torch.int32", "torch.IntStorage", "I32"},
                                {"torch.int16", "torch.ShortStorage", "I16"},
                                {"torch.int8", "torch.CharStorage", "I8"},
                                {"torch.uint8", "torch.ByteStorage", "U8"},
                                {"torch.bool", "torch.BoolStorage", "BOOL"}};

const ArchiveMember* Find(const std::vector<ArchiveMember>& members, std::string_view name) {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const ArchiveMember& member) { return member.name == name; });
  return found == members.end() ? nullptr : &*found;
}

// True if the elements lie row by row. Strides of dimensions of one element do not matter.
bool IsRowMajor(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  if (shape.size() != strides.size()) return false;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != stride) return false;
    stride *= shape[i];
  }
  return true;
}

}  // namespace

std::string_view DtypeOfTorch(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.torch == name) return row.safetensors;
  }
  return {};
}

std::int64_t ElementsOf(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && elements > kMaxElements / size)) return -1;
    elements *= size;
  }
  return shape.size() <= kMaxDimensions ? elements : -1;
}

// The archive has NAME/data.pkl, NAME/data/KEY with the numbers, and NAME/byteorder. The pickle is
// _rebuild_tensor_v2(storage, first element, shape, strides, ...), the storage an id: ("storage",
// class, KEY, device, elements). A parameter has it as its first argument.
Result<PickledTensor> ReadPickledTensor(ReadableFile& file, FilePart part,
                                        std::string_view source) {
  const auto fail = [&](ErrorCode code, std::string_view what) {
    return Fail(code, Printable(source, 512) + ": byte " + std::to_string(part.begin) + ": " +
                          std::string(what));
  };
  FT_ASSIGN(const std::vector<ArchiveMember> members, ListArchive(file, part, source));
  constexpr std::string_view kDescription = "data.pkl";
  const auto described =
      std::find_if(members.begin(), members.end(),
                   [&](const ArchiveMember& member) { return member.name.ends_with("/data.pkl"); });
  if (described == members.end()) {
    return fail(ErrorCode::kCorruptInput, "an archive without data.pkl is no tensor of torch.save");
  }
  const std::string folder =
      described->name.substr(0, described->name.size() - kDescription.size());
  if (const ArchiveMember* const order = Find(members, folder + "byteorder")) {
    FT_ASSIGN(const std::string text, ReadPart(file, order->data, 16, source));
    if (text != "little") {
      return fail(ErrorCode::kUnsupported, "was written by a big-endian machine");
    }
  }
  FT_ASSIGN(const std::string pickle, ReadPart(file, described->data, kMaxDescription, source));
  FT_ASSIGN(const PickleTree tree, ReadPickle(pickle, source,
                                              {.keeps_objects = true,
                                               .max_values = kMaxDescription,
                                               .max_text_bytes = kMaxDescription}));
  PickleIndex tensor = tree.root();
  if (tree.Name(tensor) == "torch._utils._rebuild_parameter" && !tree.Items(tensor).empty()) {
    tensor = tree.Items(tensor).front();
  }
  const std::span<const PickleIndex> arguments = tree.Items(tensor);
  if (tree.Name(tensor) != "torch._utils._rebuild_tensor_v2" || arguments.size() < 4 ||
      tree.Name(arguments[0]) != PickleTree::kPersistent) {
    return fail(ErrorCode::kCorruptInput, "is no tensor of torch.save");
  }
  const std::span<const PickleIndex> id = tree.Items(
      tree.Items(arguments[0]).empty() ? PickleTree::kNoValue : tree.Items(arguments[0]).front());
  PickledTensor read;
  for (const DtypeRow& row : kDtypes) {
    if (id.size() == 5 && tree.Name(id[1]) == row.storage) read.dtype = row.safetensors;
  }
  read.shape = tree.Integers(arguments[2]);
  const std::int64_t elements = ElementsOf(read.shape), first = tree.Integer(arguments[1], -1);
  const ArchiveMember* const numbers =
      id.size() == 5 ? Find(members, folder + "data/" + std::string(tree.Text(id[2]))) : nullptr;
  if (elements < 0 || first < 0 || first > kMaxElements || numbers == nullptr) {
    return fail(ErrorCode::kCorruptInput, "is no tensor of torch.save");
  }
  if (!IsRowMajor(read.shape, tree.Integers(arguments[3]))) {
    return fail(ErrorCode::kUnsupported, "is a view whose rows lie apart; call contiguous() first");
  }
  const std::int64_t each = BytesOfDtype(read.dtype);
  read.numbers = {numbers->data.begin + first * each, elements * each};
  if (first * each + read.numbers.bytes > numbers->data.bytes) {
    return fail(ErrorCode::kCorruptInput, "has fewer numbers than its shape says");
  }
  return read;
}

}  // namespace foretrain
