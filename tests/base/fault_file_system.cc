#include "tests/base/fault_file_system.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/numeric/random.h"

namespace foretrain {
namespace {

// The unit that a disk writes as a whole: after a loss of power each may hold garbage.
constexpr std::size_t kSector = 512;

void Put(std::string& bytes, std::int64_t offset, std::string_view text) {
  const auto at = static_cast<std::size_t>(offset);
  bytes.resize(std::max(bytes.size(), at + text.size()));
  bytes.replace(at, text.size(), text);
}

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Paths as keys of the tree: without a leading "./" and trailing slashes.
std::string Normal(const std::string& path) {
  std::string normal = path;
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal.starts_with("./") ? normal.substr(2) : normal;
}

}  // namespace

// A write after the loss of power fails and changes nothing. A write that FailAt fails stores its
// first half, as an interrupted pwrite would.
class FaultFileSystem::Writer final : public WritableFile {
 public:
  Writer(FaultFileSystem& files, std::string path, std::shared_ptr<Node> node)
      : files_(files),
        path_(std::move(path)),
        node_(std::move(node)),
        power_(files.power_cycles_) {}

  Result<void> WriteAt(std::int64_t offset, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(files_.mutex_);
    const Result<void> entered = Enter(FileOp::kWrite);
    const bool lost = power_ != files_.power_cycles_;
    if (lost) return entered;
    const std::string text =
        Text(bytes.first(entered.has_value() ? bytes.size() : bytes.size() / 2));
    foretrain::Put(node_->bytes, offset, text);
    node_->unsynced.push_back({offset, text});
    return entered;
  }

  Result<void> Append(std::span<const std::byte> bytes) override {
    FT_TRY(WriteAt(end_, bytes));
    end_ += static_cast<std::int64_t>(bytes.size());
    return {};
  }

  // The synced copy is a full copy of the bytes: files in tests are small, and a loss of power
  // restores it.
  Result<void> Sync() override {
    const std::lock_guard lock(files_.mutex_);
    FT_TRY(Enter(FileOp::kSync));
    node_->synced = node_->bytes;
    node_->unsynced.clear();
    return {};
  }

  Result<void> Close() override {
    const std::lock_guard lock(files_.mutex_);
    return Enter(FileOp::kClose);
  }

 private:
  // A handle from before a loss of power stays dead, even though the tree works again.
  Result<void> Enter(FileOp op) {
    if (power_ != files_.power_cycles_) {
      return Fail(ErrorCode::kIo, path_ + ": opened before the loss of power");
    }
    return files_.Enter(op, path_);
  }

  FaultFileSystem& files_;
  std::string path_;
  std::shared_ptr<Node> node_;
  std::int64_t power_;
  std::int64_t end_ = 0;
};

// Keeps the node alive: a file that was removed or replaced can still be read, as in a real system.
class FaultFileSystem::Reader final : public ReadableFile {
 public:
  Reader(FaultFileSystem& files, std::string path, std::shared_ptr<Node> node)
      : files_(files),
        path_(std::move(path)),
        node_(std::move(node)),
        size_bytes_(static_cast<std::int64_t>(node_->bytes.size())) {}

  Result<std::int64_t> ReadAt(std::int64_t offset, std::span<std::byte> out) override {
    const std::lock_guard lock(files_.mutex_);
    FT_TRY(files_.Enter(FileOp::kRead, path_));
    const auto at = std::min(static_cast<std::size_t>(offset), node_->bytes.size());
    const std::size_t size = std::min(out.size(), node_->bytes.size() - at);
    if (size > 0) std::memcpy(out.data(), node_->bytes.data() + at, size);
    return static_cast<std::int64_t>(size);
  }

  std::int64_t size_bytes() const override { return size_bytes_; }

  Result<void> CheckUnchanged() override {
    const std::lock_guard lock(files_.mutex_);
    FT_TRY(files_.Enter(FileOp::kStat, path_));
    if (std::ssize(node_->bytes) == size_bytes_) return {};
    return Fail(ErrorCode::kCorruptInput, path_ + ": was changed while it was in use");
  }

 private:
  FaultFileSystem& files_;
  std::string path_;
  std::shared_ptr<Node> node_;
  std::int64_t size_bytes_;
};

FaultFileSystem::FaultFileSystem() : folders_{".", "/"} {}
FaultFileSystem::~FaultFileSystem() = default;

void FaultFileSystem::FailAt(std::int64_t n, bool sticky, ErrorCode code,
                             std::function<bool(const FileCall&)> applies) {
  const std::lock_guard lock(mutex_);
  fail_in_ = n;
  sticky_ = sticky;
  fired_ = false;
  code_ = code;
  applies_ = std::move(applies);
}

void FaultFileSystem::FailNever() { FailAt(-1); }

bool FaultFileSystem::fired() const {
  const std::lock_guard lock(mutex_);
  return fired_;
}

std::vector<FileCall> FaultFileSystem::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

// Records the call and decides whether it fails. Called with mutex_ held.
Result<void> FaultFileSystem::Enter(FileOp op, const std::string& path) {
  FileCall call{op, path, false};
  if (fail_in_ >= 0 && (applies_ == nullptr || applies_(call))) {
    call.failed = fail_in_ == 0;
    if (fail_in_ > 0 || !sticky_) --fail_in_;
  }
  calls_.push_back(call);
  if (!call.failed) return {};
  fired_ = true;
  return Fail(code_, path + ": failed by the test");
}

// One change of a name: removes `removed` and binds `added` to the node. An empty one is left out.
void FaultFileSystem::Apply(const NameChange& change, Names& names) {
  if (!change.removed.empty()) names.erase(change.removed);
  if (!change.added.empty()) names[change.added] = change.node;
}

// The change is visible at once and recorded as pending until its folder is synced.
void FaultFileSystem::ChangeName(NameChange change) {
  Apply(change, names_);
  changes_.push_back(std::move(change));
}

// Names first: each unsynced change is kept or dropped. Then, for each file that still has a name,
// the unsynced writes are applied to the synced bytes in order. Every draw comes from `seed`, so a
// failure can be repeated.
void FaultFileSystem::LosePower(PowerLoss loss, std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  const CounterRandom random(seed, "power loss");
  std::uint64_t draw = 0;
  const auto keep = [&] { return loss != PowerLoss::kDropAll && random.Below(draw++, 2) == 1; };
  ++power_cycles_;
  for (const NameChange& change : changes_) {
    if (keep()) Apply(change, synced_names_);
  }
  changes_.clear();
  for (const std::string& folder : std::exchange(unsynced_folders_, {})) {
    if (!keep()) LoseFolder(folder);
  }
  names_ = synced_names_;
  for (const auto& [name, node] : names_) {
    for (Write& write : node->unsynced) {
      if (!keep()) continue;
      for (std::size_t at = 0; loss == PowerLoss::kGarbage && at < write.bytes.size();
           at += kSector) {
        if (!keep()) continue;
        for (std::size_t i = at; i < std::min(at + kSector, write.bytes.size()); ++i) {
          write.bytes[i] = static_cast<char>(random.Bits(draw++));
        }
      }
      foretrain::Put(node->synced, write.offset, write.bytes);
    }
    node->unsynced.clear();
    node->bytes = node->synced;
  }
}

void FaultFileSystem::LoseFolder(const std::string& folder) {
  const auto is_inside = [inside = folder + "/"](const auto& name) {
    return name.starts_with(inside);
  };
  folders_.erase(folder);
  std::erase_if(folders_, is_inside);
  std::erase_if(synced_names_, [&](const auto& entry) { return is_inside(entry.first); });
}

// Durable at once: tests use it for what exists before they begin.
void FaultFileSystem::Put(const std::string& path, const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto node = std::make_shared<Node>(Node{text, text, {}});
  names_[Normal(path)] = node;
  synced_names_[Normal(path)] = node;
}

std::string FaultFileSystem::Get(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(Normal(path));
  FT_CHECK(found != names_.end());
  return found->second->bytes;
}

bool FaultFileSystem::Exists(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return names_.contains(Normal(path));
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::Create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  FT_TRY(Enter(FileOp::kCreate, path));
  const std::string name = Normal(path);
  if (!folders_.contains(ParentFolder(name)) || folders_.contains(name) || names_.contains(name)) {
    return Fail(ErrorCode::kIo, path + ": no such folder, or the name is taken");
  }
  const auto node = std::make_shared<Node>();
  ChangeName({ParentFolder(name), "", name, node});
  return std::make_unique<Writer>(*this, path, node);
}

Result<std::unique_ptr<ReadableFile>> FaultFileSystem::Open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  FT_TRY(Enter(FileOp::kOpen, path));
  const auto found = names_.find(Normal(path));
  if (found == names_.end()) return Fail(ErrorCode::kInvalidArgument, path + ": no such file");
  return std::make_unique<Reader>(*this, path, found->second);
}

Result<void> FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  FT_TRY(Enter(FileOp::kRename, from));
  const auto found = names_.find(Normal(from));
  if (found == names_.end() || !folders_.contains(ParentFolder(Normal(to)))) {
    return Fail(ErrorCode::kIo, from + ": no such file, or no folder for " + to);
  }
  ChangeName({ParentFolder(Normal(to)), Normal(from), Normal(to), found->second});
  return {};
}

// Removing a folder is durable at once.
Result<void> FaultFileSystem::Remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  FT_TRY(Enter(FileOp::kRemove, path));
  const std::string name = Normal(path);
  if (folders_.contains(name)) {
    const auto inside = names_.lower_bound(name + "/");
    if (inside != names_.end() && inside->first.starts_with(name + "/")) {
      return Fail(ErrorCode::kIo, path + ": the folder is not empty");
    }
    folders_.erase(name);
    unsynced_folders_.erase(name);
    return {};
  }
  if (!names_.contains(name)) return Fail(ErrorCode::kIo, path + ": no such file");
  ChangeName({ParentFolder(name), name, "", nullptr});
  return {};
}

// Makes the folder's pending name changes durable, in order; changes in other folders stay pending.
Result<void> FaultFileSystem::SyncDirectory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  FT_TRY(Enter(FileOp::kSyncDirectory, path));
  const std::string folder = Normal(path);
  if (!folders_.contains(folder)) return Fail(ErrorCode::kIo, path + ": no such folder");
  std::erase_if(changes_, [&](const NameChange& change) {
    if (change.folder != folder) return false;
    Apply(change, synced_names_);
    return true;
  });
  std::erase_if(unsynced_folders_,
                [&](const std::string& name) { return ParentFolder(name) == folder; });
  return {};
}

Result<void> FaultFileSystem::CreateDirectories(const std::string& path) {
  const std::lock_guard lock(mutex_);
  FT_TRY(Enter(FileOp::kCreateDirectories, path));
  for (std::string folder = Normal(path); folder != "." && folder != "/";
       folder = ParentFolder(folder)) {
    if (names_.contains(folder)) return Fail(ErrorCode::kIo, folder + ": is a file");
    if (folders_.insert(folder).second) unsynced_folders_.insert(folder);
  }
  return {};
}

// Only direct children are listed; names of files and folders live in different containers.
Result<std::vector<std::string>> FaultFileSystem::List(const std::string& path) {
  const std::lock_guard lock(mutex_);
  FT_TRY(Enter(FileOp::kList, path));
  const std::string folder = Normal(path);
  if (!folders_.contains(folder))
    return Fail(ErrorCode::kInvalidArgument, path + ": no such folder");
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (name != folder && ParentFolder(name) == folder) {
      names.push_back(name.substr(name.find_last_of('/') + 1));
    }
  };
  for (const auto& [name, node] : names_) add(name);
  for (const std::string& name : folders_) {
    if (name != "." && name != "/") add(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<FileInfo> FaultFileSystem::Stat(const std::string& path) {
  const std::lock_guard lock(mutex_);
  FT_TRY(Enter(FileOp::kStat, path));
  const std::string name = Normal(path);
  if (folders_.contains(name)) return FileInfo{FileKind::kDirectory, 0};
  const auto found = names_.find(name);
  if (found == names_.end()) return FileInfo{};
  return FileInfo{FileKind::kRegular, static_cast<std::int64_t>(found->second->bytes.size())};
}

}  // namespace foretrain
