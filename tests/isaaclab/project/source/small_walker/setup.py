from setuptools import setup

setup(name="small_walker", version="0.1.0", packages=["small_walker"])
