# cpack -G DEB -B FOLDER in the build folder: a package for the release of Debian or Ubuntu that it is made on. Its cuda-path overlay is
# that of this machine's toolkit.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME memtrace)
set(CPACK_PACKAGE_VENDOR "the authors of memtrace")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "memory traces of CUDA programs, with or without a GPU")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "memtrace <memtrace@localhost>")
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The plugin is loaded by clang 19; what is compiled elsewhere can be run and analysed without it.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "clang-19, lld-19 | binutils, qemu-user, graphviz")
include(CPack)
