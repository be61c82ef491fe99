// Files that are read in random pieces, as from a network or a pipe: a read may return less than it
// was asked for before the end. For readers of bytes in order (traces/import/byte_source.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/io/file_system.h"

namespace foretrain {

class FileInPieces final : public ReadableFile {
 public:
  FileInPieces(std::unique_ptr<ReadableFile> file, std::uint64_t seed)
      : file_(std::move(file)), random_(seed) {}

  // Small reads, of what tells a file's type, are whole.
  Result<std::int64_t> ReadAt(std::int64_t offset, std::span<std::byte> out) override {
    constexpr std::size_t kWhole = 64;
    if (out.size() > kWhole) out = out.first(1 + random_() % kWhole);
    return file_->ReadAt(offset, out);
  }
  std::int64_t size_bytes() const override { return file_->size_bytes(); }
  Result<void> CheckUnchanged() override { return file_->CheckUnchanged(); }

 private:
  const std::unique_ptr<ReadableFile> file_;
  std::mt19937_64 random_;
};

// The files of another file system, which it borrows. The pieces are the same ones for a seed.
class FilesInPieces final : public FileSystem {
 public:
  FilesInPieces(FileSystem& files, std::uint64_t seed) : files_(files), seed_(seed) {}

  Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    FT_ASSIGN(std::unique_ptr<ReadableFile> file, files_.Open(path));
    return std::make_unique<FileInPieces>(std::move(file), seed_);
  }
  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return files_.Create(path);
  }
  Result<void> Rename(const std::string& from, const std::string& to) override {
    return files_.Rename(from, to);
  }
  Result<void> Remove(const std::string& path) override { return files_.Remove(path); }
  Result<void> SyncDirectory(const std::string& path) override {
    return files_.SyncDirectory(path);
  }
  Result<void> CreateDirectories(const std::string& path) override {
    return files_.CreateDirectories(path);
  }
  Result<std::vector<std::string>> List(const std::string& path) override {
    return files_.List(path);
  }
  Result<FileInfo> Stat(const std::string& path) override { return files_.Stat(path); }

 private:
  FileSystem& files_;
  const std::uint64_t seed_;
};

}  // namespace foretrain
