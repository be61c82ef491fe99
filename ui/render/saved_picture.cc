#include "ui/render/saved_picture.h"

#include <fmt/format.h>
#include <imgui.h>

#include "ui/render/png.h"
#include "ui/render/svg.h"

namespace foretrain::ui {
namespace {

constexpr int kMaxPictures = 9999;

}  // namespace

Result<std::string> NewPictureName(FileSystem& files, const std::string& folder,
                                   std::string_view view, std::string_view ending) {
  for (int number = 1; number <= kMaxPictures; ++number) {
    const std::string name = number == 1 ? fmt::format("foretrain-{}.{}", view, ending)
                                         : fmt::format("foretrain-{}-{}.{}", view, number, ending);
    FT_ASSIGN(const FileInfo info, files.Stat(folder + "/" + name));
    if (info.kind == FileKind::kMissing) return name;
  }
  return Fail(ErrorCode::kResourceExhausted,
              fmt::format("{} has {} pictures of this view; move them away", folder, kMaxPictures));
}

Result<std::string> SavePicture(PictureForm form, std::string_view view, const ViewSize& size,
                                const FrameRecord& record, Colour ground, const GlImages& images) {
  PosixFileSystem files;
  const bool svg = form == PictureForm::kSvg;
  FT_ASSIGN(const std::string name, NewPictureName(files, ".", view, svg ? "svg" : "png"));
  if (svg) {
    const std::string text = SvgOf(*ImGui::GetDrawData(), record, ground,
                                   [&](void* texture) { return images.Read(texture); });
    FT_TRY(WriteFileAtomically(files, name, text));
  } else {
    FT_TRY(WritePng(ReadFrame(size), name));
  }
  return name;
}

}  // namespace foretrain::ui
