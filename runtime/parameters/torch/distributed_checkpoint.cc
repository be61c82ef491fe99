#include "runtime/parameters/torch/distributed_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/checked.h"
#include "base/pickle/pickle.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/parameters/safetensors.h"
#include "runtime/parameters/torch/pickled_tensor.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxDescriptionBytes = std::int64_t{1} << 30;
constexpr std::size_t kMaxOpenFiles = 16;

bool IsOfOptimizer(std::string_view name) {
  return name.starts_with("optimizer.") || name.starts_with("optim.");
}

// The file is in the folder itself, so that a checkpoint cannot name files elsewhere.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

// A torch.Size: an object whose only argument is a tuple. Older ones are plain tuples.
std::vector<std::int64_t> SizeOf(const PickleTree& tree, PickleIndex size) {
  if (tree.Name(size) == "torch.Size" && !tree.Items(size).empty()) size = tree.Items(size).front();
  return tree.Integers(size);
}

// Reads a Metadata: state_dict_metadata has a TensorStorageMetadata for each tensor (properties,
// size, chunks), storage_data an _StorageInfo (relative_path, offset, length) for each
// MetadataIndex (fqn, offset).
class DescriptionReader {
 public:
  DescriptionReader(const PickleTree& tree, std::string_view source)
      : tree_(tree), source_(Printable(source, 512)) {}

  Result<ChunkedTensors> Read() {
    const PickleIndex described = tree_.Find(tree_.root(), "state_dict_metadata");
    const PickleIndex stored = tree_.Find(tree_.root(), "storage_data");
    if (tree_.kind(described) != PickleTree::Kind::kDict ||
        tree_.kind(stored) != PickleTree::Kind::kDict) {
      return Fail(ErrorCode::kCorruptInput,
                  source_ + ": describes no checkpoint of torch.distributed.checkpoint");
    }
    ReadPlaces(tree_.Members(stored));
    ChunkedTensors tensors;
    const std::span<const PickleIndex> members = tree_.Members(described);
    for (std::size_t i = 0; i + 1 < members.size(); i += 2) {
      const std::string name(tree_.Text(members[i]));
      const PickleIndex chunks = tree_.Find(members[i + 1], "chunks");
      if (IsOfOptimizer(name) || tree_.kind(chunks) != PickleTree::Kind::kList) continue;
      FT_ASSIGN(tensors[name], Tensor(name, members[i + 1], tree_.Items(chunks)));
    }
    if (!tensors.empty()) return tensors;
    return Fail(ErrorCode::kCorruptInput, source_ + ": describes no tensor of a model");
  }

 private:
  void ReadPlaces(std::span<const PickleIndex> members) {
    for (std::size_t i = 0; i + 1 < members.size(); i += 2) {
      const PickleIndex offset = tree_.Find(members[i], "offset");
      places_[{std::string(tree_.Text(tree_.Find(members[i], "fqn"))), SizeOf(tree_, offset)}] =
          members[i + 1];
    }
  }

  tl::unexpected<Error> Bad(const std::string& tensor, std::string_view what,
                            ErrorCode code = ErrorCode::kCorruptInput) const {
    return Fail(code, source_ + ": tensor " + Printable(tensor) + ": " + std::string(what));
  }

  Result<ChunkedTensor> Tensor(const std::string& name, PickleIndex described,
                               std::span<const PickleIndex> chunks) const {
    ChunkedTensor tensor;
    // PyTorch pickles the properties as a tuple that begins with the dtype.
    const PickleIndex properties = tree_.Find(described, "properties");
    const PickleIndex state = tree_.State(properties);
    PickleIndex dtype = tree_.Find(properties, "dtype");
    if (!tree_.Items(state).empty()) dtype = tree_.Items(state).front();
    tensor.dtype = DtypeOfTorch(tree_.Name(dtype));
    tensor.shape = SizeOf(tree_, tree_.Find(described, "size"));
    const std::int64_t elements = ElementsOf(tensor.shape);
    if (elements < 0) return Bad(name, "has no shape");
    std::int64_t covered = 0;
    for (const PickleIndex chunk : chunks) {
      FT_ASSIGN(TensorChunk read, Chunk(name, tensor.shape, chunk));
      const std::int64_t size = ElementsOf(read.sizes);
      if (size > elements - covered) return Bad(name, "has chunks that overlap");
      covered += size;
      tensor.chunks.push_back(std::move(read));
    }
    if (covered != elements) {
      return Bad(name, "has chunks of " + std::to_string(covered) + " elements, and its shape " +
                           std::to_string(elements));
    }
    return tensor;
  }

  Result<TensorChunk> Chunk(const std::string& name, const std::vector<std::int64_t>& shape,
                            PickleIndex described) const {
    TensorChunk chunk{.offsets = SizeOf(tree_, tree_.Find(described, "offsets")),
                      .sizes = SizeOf(tree_, tree_.Find(described, "sizes")),
                      .file = {}};
    bool inside = chunk.offsets.size() == shape.size() && chunk.sizes.size() == shape.size();
    for (std::size_t i = 0; inside && i < shape.size(); ++i) {
      inside = chunk.offsets[i] >= 0 && chunk.sizes[i] >= 0 && chunk.sizes[i] <= shape[i] &&
               chunk.offsets[i] <= shape[i] - chunk.sizes[i];
    }
    if (!inside) return Bad(name, "has a chunk outside of its shape");
    const auto place = places_.find({name, chunk.offsets});
    if (place == places_.end()) return Bad(name, "has a chunk in no file");
    chunk.file = tree_.Text(tree_.Find(place->second, "relative_path"));
    chunk.begin = tree_.Integer(tree_.Find(place->second, "offset"), -1);
    chunk.bytes = tree_.Integer(tree_.Find(place->second, "length"), -1);
    if (!IsPlainName(chunk.file) || chunk.begin < 0 || chunk.bytes < 0) {
      return Bad(name, "has a chunk in a file that is not in the folder");
    }
    const PickleIndex transforms = tree_.Find(place->second, "transform_descriptors");
    if (!tree_.Items(transforms).empty()) {
      return Bad(name, "is compressed; save the checkpoint without extensions",
                 ErrorCode::kUnsupported);
    }
    return chunk;
  }

  const PickleTree& tree_;
  const std::string source_;
  std::map<std::pair<std::string, std::vector<std::int64_t>>, PickleIndex> places_;
};

// The elements that a chunk has of a slice's rows.
struct ChunkRows {
  std::int64_t skipped = 0;          // elements of the chunk before them: its other slices
  std::int64_t first = 0, rows = 0;  // in the slice
  std::int64_t col = 0, cols = 0;    // in the slice
};

// Nothing if the chunk does not reach into the slice.
std::optional<ChunkRows> PartOf(const TensorChunk& chunk, const TensorSlice& slice) {
  const std::size_t leading = slice.leading.size(), dimensions = chunk.sizes.size();
  ChunkRows part;
  for (std::size_t i = 0; i < leading; ++i) {
    const std::int64_t at = slice.leading[i] - chunk.offsets[i];
    if (at < 0 || at >= chunk.sizes[i]) return std::nullopt;
    part.skipped = part.skipped * chunk.sizes[i] + at;
  }
  part.rows = part.cols = 1;
  if (dimensions > leading) {
    part.col = chunk.offsets.back();
    part.cols = chunk.sizes.back();
  }
  if (dimensions > leading + 1) {
    part.first = chunk.offsets[leading];
    part.rows = chunk.sizes[leading];
  }
  part.skipped *= part.rows * part.cols;
  return part;
}

}  // namespace

Result<ChunkedTensors> ParseChunkedTensors(std::string_view pickle, std::string_view source) {
  FT_ASSIGN(const PickleTree tree, ReadPickle(pickle, source, {.keeps_objects = true}));
  return DescriptionReader(tree, source).Read();
}

Result<std::unique_ptr<const DistributedCheckpoint>> DistributedCheckpoint::Open(
    FileSystem& files, const std::string& folder) {
  std::unique_ptr<DistributedCheckpoint> checkpoint(new DistributedCheckpoint(files, folder));
  const std::string path = folder + "/" + std::string(kDescriptionName);
  FT_ASSIGN(const std::string pickle, ReadFile(files, path, kMaxDescriptionBytes));
  FT_ASSIGN(checkpoint->tensors_, ParseChunkedTensors(pickle, path));
  FT_TRY(checkpoint->CheckFiles());
  return std::unique_ptr<const DistributedCheckpoint>(std::move(checkpoint));
}

Result<void> DistributedCheckpoint::CheckFiles() const {
  std::map<std::string, std::int64_t> sizes;
  std::int64_t stored = 0;
  for (const auto& [name, tensor] : tensors_) {
    for (const TensorChunk& chunk : tensor.chunks) {
      const std::string path = folder_ + "/" + chunk.file;
      const auto [size, is_new] = sizes.try_emplace(chunk.file, 0);
      if (is_new) {
        FT_ASSIGN(const FileInfo info, files_.Stat(path));
        if (info.kind != FileKind::kRegular) {
          return Fail(ErrorCode::kInvalidArgument,
                      Printable(folder_, 512) + ": " + std::string(kDescriptionName) + " names " +
                          Printable(chunk.file) + ", which is not in the folder; copy it");
        }
        size->second = info.size_bytes;
        stored += info.size_bytes;
      }
      if (chunk.begin <= size->second && chunk.bytes <= size->second - chunk.begin) continue;
      return Fail(ErrorCode::kCorruptInput, Printable(path, 512) + ": ends before tensor " +
                                                Printable(name) +
                                                ": it was cut off; copy it again");
    }
  }
  for (const auto& [name, tensor] : tensors_) {
    stored -= ElementsOf(tensor.shape) * BytesOfDtype(tensor.dtype);
    if (stored >= 0) continue;
    return Fail(ErrorCode::kCorruptInput, Printable(folder_, 512) + ": " +
                                              std::string(kDescriptionName) +
                                              " describes more numbers than its files hold");
  }
  return {};
}

Result<std::string> DistributedCheckpoint::Rows(const TensorSlice& slice, std::int64_t first,
                                                std::int64_t rows) const {
  const auto found = tensors_.find(slice.tensor);
  FT_CHECK(found != tensors_.end());
  const ChunkedTensor& tensor = found->second;
  FT_CHECK(tensor.shape.size() <= slice.leading.size() + 2);
  const bool scalar = tensor.shape.size() == slice.leading.size();
  const std::int64_t cols = scalar ? 1 : tensor.shape.back();
  std::string out(static_cast<std::size_t>(rows * cols * BytesOfDtype(tensor.dtype)), '\0');
  const std::lock_guard lock(mutex_);
  for (const TensorChunk& chunk : tensor.chunks) {
    FT_TRY(CopyChunk(slice, tensor, chunk, first, rows, out));
  }
  return out;
}

// Rows of a chunk follow one another in its file, so that its part of the rows is read at once.
Result<void> DistributedCheckpoint::CopyChunk(const TensorSlice& slice, const ChunkedTensor& tensor,
                                              const TensorChunk& chunk, std::int64_t first,
                                              std::int64_t rows, std::string& out) const {
  const std::optional<ChunkRows> part = PartOf(chunk, slice);
  if (!part) return {};
  const std::int64_t begin = std::max(first, part->first);
  const std::int64_t end = std::min(first + rows, part->first + part->rows);
  if (begin >= end || part->cols == 0) return {};
  const std::int64_t each = BytesOfDtype(tensor.dtype);
  FT_ASSIGN(ReadableFile* const file, FileOf(chunk.file));
  FT_ASSIGN(const std::int64_t numbers, NumbersOf(*file, tensor, chunk));
  const std::int64_t skipped = part->skipped + (begin - part->first) * part->cols;
  const std::int64_t wanted = (end - begin) * part->cols * each;
  FT_ASSIGN(const std::string bytes, ReadPart(*file, {numbers + skipped * each, wanted}, wanted,
                                              folder_ + "/" + chunk.file));
  const std::int64_t row_bytes = std::ssize(out) / rows;
  for (std::int64_t row = begin; row < end; ++row) {
    std::memcpy(out.data() + (row - first) * row_bytes + part->col * each,
                bytes.data() + (row - begin) * part->cols * each,
                static_cast<std::size_t>(part->cols * each));
  }
  return {};
}

Result<ReadableFile*> DistributedCheckpoint::FileOf(const std::string& name) const {
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const auto& open) { return open.first == name; });
  if (found != open_.end()) return found->second.get();
  FT_ASSIGN(std::unique_ptr<ReadableFile> file, files_.Open(folder_ + "/" + name));
  if (open_.size() == kMaxOpenFiles) open_.pop_back();
  open_.emplace_front(name, std::move(file));
  return open_.front().second.get();
}

Result<std::int64_t> DistributedCheckpoint::NumbersOf(ReadableFile& file,
                                                      const ChunkedTensor& tensor,
                                                      const TensorChunk& chunk) const {
  const auto known = numbers_.find(&chunk);
  if (known != numbers_.end()) return known->second;
  const std::string path = folder_ + "/" + chunk.file;
  FT_ASSIGN(const PickledTensor stored, ReadPickledTensor(file, {chunk.begin, chunk.bytes}, path));
  if (stored.dtype != tensor.dtype || stored.shape != chunk.sizes) {
    return Fail(ErrorCode::kCorruptInput,
                Printable(path, 512) + ": byte " + std::to_string(chunk.begin) +
                    ": is another tensor than " + std::string(kDescriptionName) +
                    " says; the files are of different checkpoints");
  }
  numbers_[&chunk] = stored.numbers.begin;
  return stored.numbers.begin;
}

}  // namespace foretrain
