#include "traces/import/byte_source.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/units.h"

#if FORETRAIN_HAVE_ZLIB
#include <zlib.h>
#endif

namespace foretrain::trace_import {
namespace {

// Reads the file as it is.
class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(std::unique_ptr<ReadableFile> file) : file_(std::move(file)) {}

  Result<std::int64_t> Read(std::span<char> out) override {
    FT_ASSIGN(const std::int64_t read, file_->ReadAt(at_, std::as_writable_bytes(out)));
    at_ += read;
    return read;
  }
  std::int64_t file_bytes() const override { return file_->size_bytes(); }
  std::int64_t file_bytes_read() const override { return at_; }

 private:
  std::unique_ptr<ReadableFile> file_;
  std::int64_t at_ = 0;
};

#if FORETRAIN_HAVE_ZLIB

// Packed bytes that are read at once.
constexpr std::size_t kPackedChunk = std::size_t{64} * 1024;
// below this size high ratios are normal
constexpr std::int64_t kRatioFrom = std::int64_t{1} << 20;

// Unpacks gzip while it is read. A hostile file can expand a thousandfold, so the output is limited
// both in bytes and relative to the bytes read so far.
class GzipSource final : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> packed, std::string path, UnpackLimits limits)
      : packed_(std::move(packed)), path_(std::move(path)), limits_(limits), chunk_(kPackedChunk) {}
  ~GzipSource() override {
    if (started_) inflateEnd(&stream_);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  // Returns 0 bytes only at the end: inflate may consume input without output, so it is called
  // until something came out. What came out before damage is returned first, and the error by the
  // next call, so that the result does not depend on the sizes of the reads.
  Result<std::int64_t> Read(std::span<char> out) override {
    // 16 + MAX_WBITS accepts gzip only, and checks its header and checksum.
    if (!started_ && inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) {
      return Fail(ErrorCode::kResourceExhausted, path_ + ": no memory to unpack it");
    }
    started_ = true;
    if (damage_.has_value()) return tl::unexpected<Error>(*damage_);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1U << 30U));
    const uInt room = stream_.avail_out;
    while (stream_.avail_out == room && !ended_) {
      const Result<void> step = Inflate();
      if (step.has_value()) continue;
      if (stream_.avail_out == room) return tl::unexpected<Error>(step.error());
      damage_ = step.error();
    }
    unpacked_ += room - stream_.avail_out;
    FT_TRY(CheckLimits());
    return static_cast<std::int64_t>(room - stream_.avail_out);
  }
  std::int64_t file_bytes() const override { return packed_->file_bytes(); }
  std::int64_t file_bytes_read() const override { return packed_->file_bytes_read(); }

 private:
  // One step of inflate; reads more packed bytes if all were used.
  Result<void> Inflate() {
    if (stream_.avail_in == 0) {
      FT_ASSIGN(const std::int64_t read, packed_->Read(chunk_));
      stream_.next_in = reinterpret_cast<Bytef*>(chunk_.data());
      stream_.avail_in = static_cast<uInt>(read);
      if (read == 0) {
        ended_ = true;
        return {};
      }
    }
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      // Concatenated gzip files (made by `cat`) count as one.
      if (inflateReset(&stream_) != Z_OK) ended_ = true;
      return {};
    }
    if (code == Z_OK || code == Z_BUF_ERROR) return {};
    return Fail(ErrorCode::kCorruptInput,
                path_ + ": damaged gzip data before byte " +
                    std::to_string(packed_->file_bytes_read() - stream_.avail_in) + " (" +
                    (stream_.msg != nullptr ? stream_.msg : "inflate failed") +
                    "); copy the file again");
  }

  // Checked after each read, so at most one buffer is unpacked beyond a limit.
  Result<void> CheckLimits() const {
    const std::int64_t read = std::max<std::int64_t>(1, packed_->file_bytes_read());
    if (unpacked_ > limits_.max_bytes) {
      return Fail(ErrorCode::kResourceExhausted,
                  path_ + ": unpacks to more than " + FormatBytes(limits_.max_bytes) +
                      "; unpack it yourself (gunzip) and import the text");
    }
    if (unpacked_ > kRatioFrom && unpacked_ / read > limits_.max_ratio) {
      return Fail(ErrorCode::kResourceExhausted,
                  path_ + ": unpacks to more than " + std::to_string(limits_.max_ratio) +
                      " times its size, which no trace does; if it is one, unpack it yourself "
                      "(gunzip) and import the text");
    }
    return {};
  }

  std::unique_ptr<ByteSource> packed_;
  std::string path_;
  UnpackLimits limits_;
  std::vector<char> chunk_;
  z_stream stream_{};
  bool started_ = false;
  bool ended_ = false;
  std::optional<Error> damage_;  // that comes after what was returned last
  std::int64_t unpacked_ = 0;
};

#endif

}  // namespace

// The first two bytes decide, not the file's name.
Result<std::unique_ptr<ByteSource>> OpenBytes(FileSystem& files, const std::string& path,
                                              const UnpackLimits& limits) {
  FT_ASSIGN(std::unique_ptr<ReadableFile> file, files.Open(path));
  std::array<std::byte, 2> magic{};
  FT_ASSIGN(const std::int64_t read, file->ReadAt(0, magic));
  auto plain = std::make_unique<PlainSource>(std::move(file));
  if (read < 2 || magic[0] != std::byte{0x1f} || magic[1] != std::byte{0x8b}) return plain;
#if FORETRAIN_HAVE_ZLIB
  return std::make_unique<GzipSource>(std::move(plain), Printable(path, 512), limits);
#else
  static_cast<void>(limits);
  return Fail(ErrorCode::kUnsupported, Printable(path, 512) +
                                           ": packed with gzip, and this build has no zlib; unpack "
                                           "it (gunzip) and import the text");
#endif
}

}  // namespace foretrain::trace_import
